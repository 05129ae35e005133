// llhttp as WebAssembly, as undici ships it. By this file, and not by an `import` of undici's: there the bundler makes an
// object with a getter for each of its 54,202 bytes, which is 14 MB.
exports.binary = require("undici/lib/llhttp/llhttp_simd-wasm.js");
