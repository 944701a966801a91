// Bundle the front end into the Python package: the page's script and style sheet, and the worker of a static site, which
// the wheel carries. Beside them comes the WebAssembly of ONNX Runtime, compressed, which git does not keep.
import { readFile, writeFile } from "node:fs/promises";
import { deflateSync } from "node:zlib";
import { build } from "esbuild";

const outdir = process.argv[2] ?? "../src/regard/views/page/built";
const options = { outdir, bundle: true, minify: true, target: "es2022", charset: "utf8", legalComments: "none" };
await build({
  ...options,
  entryPoints: { page: "src/main.tsx" },
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
});
await build({
  ...options,
  entryPoints: { worker: "src/site/worker.ts" },
  format: "iife",
  legalComments: "eof", // whose ONNX Runtime this is
  define: { "import.meta.url": '"worker.js"' }, // ONNX Runtime loads nothing by it: its WebAssembly is given
});
const runtime = await readFile("node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm");
await writeFile(`${outdir}/onnxruntime.wasm.deflate`, deflateSync(runtime, { level: 9 }));
