// Text of strangers as a person may read it.

// What fonts draw as nothing, and controls: the ranges of internal/plain.
const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const emoji = /[\p{Extended_Pictographic}\p{Emoji_Modifier}]\ufe0f?$/u, symbol = /[\p{Extended_Pictographic}#*0-9]$/u;
const joined = /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** hasMeaning reports whether a hidden character changes what is seen of its neighbours. */
function hasMeaning(c, before, after) {
  switch (c) {
    case "\u200d": return emoji.test(before) && /^\p{Extended_Pictographic}/u.test(after) || joined.test(before.slice(-1)) && joined.test(after[0] ?? "");
    case "\u200c": return joined.test(before.slice(-1)) && joined.test(after[0] ?? "");
    case "\ufe0e": case "\ufe0f": return symbol.test(before);
  }
  return false;
}

/** shown returns a text in which hidden characters are written as U+202E. */
export const shown = (text) => text.replace(hidden, (c, at) =>
  hasMeaning(c, text.slice(Math.max(0, at - 4), at), text.slice(at + c.length, at + c.length + 4))
    ? c : `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
