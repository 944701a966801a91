// Bundle the front end into the Python package: one script and one style sheet, which the wheel carries.
import { build } from "esbuild";

await build({
  entryPoints: { page: "src/main.tsx" },
  outdir: process.argv[2] ?? "../src/regard/views/page/built",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
});
