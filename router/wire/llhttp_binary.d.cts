/** llhttp as WebAssembly, as undici ships it. */
export declare const binary: Uint8Array<ArrayBuffer>;
