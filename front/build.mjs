// Bundle the front end into the Python package: the page's script and style sheet, and the script of a site's worker. ONNX Runtime's
// WebAssembly is added, compressed; it is in the wheel, but not in git.
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
  legalComments: "eof", // keep the licence of ONNX Runtime
  define: { "import.meta.url": '"worker.js"' }, // ONNX Runtime loads nothing from this address: the worker hands it its WebAssembly
});
const runtime = await readFile("node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm");
await writeFile(`${outdir}/onnxruntime.wasm.deflate`, deflateSync(runtime, { level: 9 }));
