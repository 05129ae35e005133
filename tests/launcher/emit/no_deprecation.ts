import process from "node:process";

// To import before packages that load a module of Node's that is deprecated, which is nothing to tell whoever runs tests.
Object.assign(process, { noDeprecation: true });
