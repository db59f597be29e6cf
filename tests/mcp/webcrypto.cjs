// The example's server over HTTP counts on this global, which Node 18, Debian 12's, has not yet.
globalThis.crypto ??= require("node:crypto").webcrypto;
