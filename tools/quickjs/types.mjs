// The source of internal/script/types.js: a function that replaces type annotations by spaces, so that lines and columns
// stay. It is made of the parser of sucrase (MIT):
//
//	npm install --prefix DIR sucrase@3.35.1 esbuild@0.28.1
//	NODE_PATH=DIR/node_modules DIR/node_modules/.bin/esbuild tools/quickjs/types.mjs --bundle --minify --target=es2020 \
//	  --format=iife --global-name=strip --banner:js='(() => {' --footer:js='return strip.default})()' --legal-comments=none --outfile=internal/script/types.js
import { parse } from "sucrase/dist/esm/parser/index.js";
import { TokenType as tt } from "sucrase/dist/esm/parser/tokenizer/types.js";

const modifiers = [tt._abstract, tt._declare, tt._override, tt._private, tt._protected, tt._public, tt._readonly, tt.nonNullAssertion];

// tokens are those of a script, whose errors say where they are as QuickJS does.
function tokens(code) {
  try {
    return parse(code, false, true, false).tokens;
  } catch ({ message, loc }) {
    const error = new SyntaxError(message.replace(/ \(\d+:\d+\)$/, ""));
    if (loc) error.stack = `at script:${loc.line}:${loc.column}`;
    throw error;
  }
}

// refuse says that a token begins TypeScript that has code of its own.
function refuse(code, start, what) {
  const lines = code.slice(0, start).split("\n"), error = new SyntaxError(`${what} is TypeScript that can't be taken off; write JavaScript`);
  error.name = "TypeScriptError";
  error.stack = `at script:${lines.length}:${lines.at(-1).length + 1}`;
  throw error;
}

// parts reports whether a type begins at a token that parts two statements. Without it, JavaScript would read these as one.
function parts(code, all, i) {
  const word = all[i - 1]?.isType ? "" : code.slice(all[i].start, all[i].end);
  if (!/^(as|satisfies)$/.test(word)) return /^(type|interface|declare|export)$/.test(word);
  while (all[i].isType) i++;
  return [tt.parenL, tt.bracketL, tt.backQuote].includes(all[i].type) && code.slice(all[i - 1].end, all[i].start).includes("\n");
}

export default function strip(code) {
  let text = "", at = 0;
  const all = tokens(code);
  for (const [i, { type, isType, start, end }] of all.entries()) {
    if (type === tt._enum && !all[i + 1].isType) refuse(code, start, "an enum");
    if (isType && !all[i - 1]?.isType && /^(namespace|module)$/.test(code.slice(start, end))) refuse(code, start, "a namespace");
    if (!isType && !modifiers.includes(type)) continue;
    if (!isType && type !== tt.nonNullAssertion && [tt.parenL, tt.comma].includes(all[i - 1].type)) refuse(code, start, "a parameter that is a property");
    text += code.slice(at, start) + (isType && parts(code, all, i) ? ";" : " ") + code.slice(start + 1, end).replace(/[^\r\n]/g, " ");
    at = end;
  }
  return text + code.slice(at);
}
