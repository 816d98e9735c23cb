// The prelude gives a script its functions. The script may change every built-in object, so that the prelude
// keeps the built-ins that it needs, and neither iterates nor reads inherited properties of its own objects.
(function (host) {
  "use strict";
  const { parse, rawJSON, stringify } = JSON, { apply } = Reflect, { imul } = Math, { slice } = String.prototype;
  const { defineProperty, freeze, keys: namesOf } = Object, { isArray } = Array;
  const NativeMap = Map, NativeSet = Set, eachOfMap = Map.prototype.forEach, eachOfSet = Set.prototype.forEach;
  const NativePromise = Promise, NativeProxy = Proxy, NativeString = String, NativeError = Error;
  const NativeTypeError = TypeError, NativeBigInt = BigInt, { isSafeInteger } = Number;
  const maxText = 4 << 20; // UTF-16 code units of the arguments of a call
  const open = { __proto__: null }; // the calls without an answer, by number

  // With this hook, a script would get the functions of its stack, these among them.
  defineProperty(NativeError, "prepareStackTrace", { value: undefined, writable: false, configurable: false });

  const cut = (text, max) => (text.length > max ? apply(slice, text, [0, max]) : text);

  class ToolError extends NativeError {
    tool;
    retryable;
    constructor(tool, message, retryable = false) {
      super(message);
      this.tool = tool;
      this.retryable = retryable;
    }
  }
  defineProperty(ToolError.prototype, "name", { value: "ToolError", writable: true, configurable: true });
  defineProperty(NativeBigInt.prototype, "toJSON", { value() { return rawJSON(NativeString(this)); }, writable: true, configurable: true });

  const failure = (tool, message, retryable, stack) => {
    const error = new ToolError(tool, message, retryable);
    defineProperty(error, "stack", { __proto__: null, value: stack, writable: true, configurable: true });
    return error;
  };

  // flat reports whether a value is an object with texts, numbers and booleans only.
  const flat = (value) => {
    if (typeof value !== "object" || value === null || isArray(value) || value.toJSON !== undefined) return false;
    const names = namesOf(value);
    for (let i = 0; i < names.length; i++) {
      const type = typeof value[names[i]];
      if (type !== "string" && type !== "number" && type !== "boolean") return false;
    }
    return names.length > 0; // a Map and a Set have none
  };

  // plain returns a Map as an object, a Set as an array, and any other value as it is.
  const plain = (value) => {
    if (value instanceof NativeMap) {
      const object = { __proto__: null };
      apply(eachOfMap, value, [(item, key) => { object[typeof key === "string" ? key : show(key)] = item; }]);
      return object;
    }
    if (!(value instanceof NativeSet)) return value;
    const list = [];
    let n = 0;
    apply(eachOfSet, value, [(item) => defineProperty(list, n++, { __proto__: null, value: item, enumerable: true })]);
    return list;
  };

  // exact reads a whole number that JavaScript would write with other digits as a BigInt, and one that is too large as a text.
  const exact = (_, value, { source }) => {
    if (typeof value !== "number" || isSafeInteger(value)) return value;
    if (value === 1 / 0 || value === -1 / 0) return source;
    try {
      return value % 1 === 0 && NativeString(value) !== source ? NativeBigInt(source) : value;
    } catch {
      return value; // it has an exponent
    }
  };

  // encode returns a value as JSON, or undefined for undefined. It throws for a value that JSON can't have,
  // and says where it is.
  const encode = (value, root) => {
    if (flat(value)) return stringify(value); // no place is needed
    const holders = { __proto__: null }, keys = { __proto__: null }; // of the value's place: holders[i][keys[i]] is holders[i + 1]
    const origins = { __proto__: null }; // what the script has for the holders
    let depth = 0;
    const place = (end) => {
      let path = root;
      for (let i = 1; i < end; i++) path += isArray(holders[i]) ? `[${keys[i]}]` : `.${keys[i]}`;
      return cut(path, 200);
    };
    return stringify(value, function (key, item) {
      while (depth > 0 && holders[depth - 1] !== this) depth--;
      if (depth === 0) holders[depth++] = this;
      keys[depth - 1] = key;
      const type = typeof item;
      if (type === "function" || type === "symbol")
        throw new NativeTypeError(`${place(depth)} is a ${type}, which JSON can't have`);
      if (type === "object" && item !== null) {
        for (let i = 1; i < depth; i++)
          if (origins[i] === item) throw new NativeTypeError(`${place(depth)} is a cycle: it is ${place(i)} again`);
        if (item instanceof NativePromise) throw new NativeTypeError(`${place(depth)} is a promise: write "await" before it, or "await Promise.all(LIST)"`);
        origins[depth] = item;
        holders[depth++] = item = plain(item);
      }
      return item;
    });
  };

  const show = (value) => {
    if (typeof value === "string") return value;
    try {
      if (value instanceof NativeError) return `${value.name}: ${value.message}`;
      const text = stringify(value, (_, item) => plain(item));
      if (typeof text === "string") return text;
    } catch {}
    try {
      return NativeString(value);
    } catch {
      return "(a value that can't be shown)";
    }
  };

  const ask = (kind, tool, value) => {
    let { stack } = new NativeError();
    if (typeof stack !== "string") stack = "";
    return new NativePromise((resolve, reject) => {
      let text;
      try {
        text = encode(value, "arguments");
        if (typeof text !== "string") throw new NativeTypeError("arguments is no JSON");
        if (text.length > maxText) throw new NativeTypeError(`the arguments have ${text.length} characters; at most ${maxText} are possible`);
      } catch (error) {
        throw failure(tool, show(error), false, stack);
      }
      open[host(`${kind}\n${stringify(tool)}\n${text}\n${stack}`)] = { __proto__: null, tool, resolve, reject, stack };
    });
  };

  const call = (tool, args) => ask("call", show(tool), args === undefined ? {} : args);

  const callSafe = async (tool, args) => {
    try {
      return { ok: true, value: await call(tool, args) };
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      const { name, message, retryable } = error;
      return { ok: false, error: { name, tool: error.tool, message, retryable } };
    }
  };

  const proxy = (get) =>
    new NativeProxy(freeze({ __proto__: null }), {
      __proto__: null,
      get: (_, name) => (typeof name === "string" && name !== "then" && name !== "toJSON" ? get(name) : undefined),
    });

  const print = (...values) => {
    let line = "";
    for (let i = 0; i < values.length; i++) line += (i > 0 ? " " : "") + show(values[i]);
    host(`log\n${line}`);
  };

  const define = (name, value) => defineProperty(globalThis, name, { value, enumerable: true });
  define("ToolError", ToolError);
  define("call", call);
  define("callSafe", callSafe);
  define("tools", proxy((server) => proxy((tool) => (args) => call(`${server}:${tool}`, args))));
  define("search", (task) => ask("search", "search", NativeString(task)));
  define("describe", (ids) => ask("describe", "describe", typeof ids === "string" ? [ids] : ids));
  define("result", (value) => {
    const handle = typeof value === "string" ? value : value.handle;
    if (typeof handle !== "string" || !host(`result\n${handle}`)) throw new NativeTypeError(`result: ${cut(show(value), 200)} is no handle of a call's result`);
  });
  define("console", freeze({ log: print, info: print, debug: print, warn: print, error: print }));

  // The host calls these functions.
  const begin = (input, seed) => {
    define("input", input === "" ? undefined : parse(input, exact));
    let state = seed;
    Math.random = () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = imul(state ^ (state >>> 15), 1 | state);
      t = (t + imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  };
  const run = async (script, callable) => {
    const value = await script();
    return callable === 1 && typeof value === "function" ? await value(globalThis.input) : value;
  };
  const answer = (text, number, mayChange) => {
    const { tool, resolve, reject, stack } = open[number];
    delete open[number];
    let value;
    try {
      value = mayChange === 1 ? parse(text, exact) : parse(text);
    } catch {
      reject(failure(tool, `the result of ${tool} does not fit into the script's memory`, false, stack));
      return;
    }
    resolve(value);
  };
  const refuse = (message, number, retryable) => {
    const { tool, reject, stack } = open[number];
    delete open[number];
    reject(failure(tool, message, retryable === 1, stack));
  };
  const explain = (error) => {
    let name = "Error", message = "", stack = "";
    try {
      if (error instanceof NativeError) {
        name = NativeString(error.name);
        stack = NativeString(error.stack);
        message = NativeString(error.message);
      } else message = `the script threw ${show(error)}`;
    } catch {
      if (message === "") message = "the script threw an error that can't be read";
    }
    return stringify({ __proto__: null, name: cut(name, 100), message: cut(message, 4000), stack: cut(stack, 8000) });
  };
  return { begin, run, answer, refuse, encode: (value) => encode(value, "the result"), explain };
})
