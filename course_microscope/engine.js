// A bundled model in the page: its tokenizer, its layers of attention, and what `facts.py` says of a run, number by number.
const HALF = new Float32Array(65536).map((_, bits) => {
  const exponent = (bits >> 10) & 31, rest = bits & 1023;
  const size = exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : 2 ** -14 * (rest / 1024);
  return bits >> 15 ? -size : size;
});
const PIECE = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const MOST = 64; // tokens, as in stored.py
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

function widened(bits, from, to) {
  const out = new Float32Array(to - from);
  for (let i = from; i < to; i++) out[i - from] = HALF[bits[i]];
  return out;
}

function times(x, n, d, w, at, m) {
  // [n, d] · [d, m], w being stored as [m, d] from `at` on: two rows by four columns at a time, kept in registers
  const out = new Float32Array(n * m);
  for (let i = 0; i < n; i += 2) {
    const one = i * d, two = Math.min(i + 1, n - 1) * d;
    for (let j = 0; j < m; j += 4) {
      const p = at + j * d, q = p + d, r = q + d, s = r + d;
      let a = 0, b = 0, c = 0, e = 0, f = 0, g = 0, h = 0, l = 0;
      for (let k = 0; k < d; k++) {
        const x1 = x[one + k], x2 = x[two + k], w1 = w[p + k], w2 = w[q + k], w3 = w[r + k], w4 = w[s + k];
        a += x1 * w1; b += x1 * w2; c += x1 * w3; e += x1 * w4;
        f += x2 * w1; g += x2 * w2; h += x2 * w3; l += x2 * w4;
      }
      const to = i * m + j, next = to + m;
      out[to] = a; out[to + 1] = b; out[to + 2] = c; out[to + 3] = e;
      if (i + 1 < n) out[next] = f, out[next + 1] = g, out[next + 2] = h, out[next + 3] = l;
    }
  }
  return out;
}

function turned(w, rows, columns) {
  // each matrix [rows, columns] of a stack as [columns, rows]
  const out = new Float32Array(w.length), size = rows * columns;
  for (let at = 0; at < w.length; at += size)
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) out[at + j * rows + i] = w[at + i * columns + j];
  return out;
}

const padded = (k, n, d) => {
  const out = new Float32Array(Math.ceil(n / 4) * 4 * d);
  out.set(k);
  return out;
};

function gram(w, at, rows, columns, across) {
  // W Wᵀ of a head's matrix, or Wᵀ W if `across`
  const size = across ? columns : rows, out = new Float64Array(size * size);
  for (let i = 0; i < size; i++)
    for (let j = 0; j <= i; j++) {
      let total = 0;
      for (let k = 0; k < (across ? rows : columns); k++)
        total += across ? w[at + k * columns + i] * w[at + k * columns + j] : w[at + i * columns + k] * w[at + j * columns + k];
      out[i * size + j] = out[j * size + i] = total;
    }
  return out;
}

function form(g, v, at, size) {
  // √(v G vᵀ): the length of v W, G being W Wᵀ
  let total = 0;
  for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) total += v[at + i] * g[i * size + j] * v[at + j];
  return Math.sqrt(Math.max(0, total));
}

function softmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity), p = new Float64Array(logits.length);
  let total = 0;
  for (let i = 0; i < p.length; i++) total += p[i] = Math.exp(logits[i] - most);
  return p.map((one) => one / total);
}

const largest = (values, count) => {
  const kept = []; // no sorting of 4,096 numbers
  values.forEach((value, i) => {
    if (kept.length < count || value > values[kept[count - 1]]) {
      kept.push(i);
      kept.sort((a, b) => values[b] - values[a] || a - b).splice(count);
    }
  });
  return kept;
};

class Tokenizer {
  constructor({ model, added_tokens }) {
    this.ids = new Map(Object.entries(model.vocab));
    this.start = added_tokens[0];
    this.ranks = new Map(model.merges.map((pair, rank) => [pair.join("\n"), rank]));
    const shown = [...Array(256).keys()].filter((b) => (b > 32 && b < 127) || (b > 160 && b !== 173));
    const letters = new Map(shown.map((b) => [b, String.fromCharCode(b)]));
    for (let b = 0, extra = 256; b < 256; b++) if (!letters.has(b)) letters.set(b, String.fromCharCode(extra++));
    this.letters = letters;
    const bytes = new Map([...letters].map(([byte, letter]) => [letter, byte])), decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const read = (token) => decoder.decode(Uint8Array.from([...token].map((letter) => bytes.get(letter))));
    this.names = [];
    for (const [token, id] of this.ids) this.names[id] = id === this.start.id ? token : read(token);
  }

  encode(text) {
    if (/\p{Surrogate}/u.test(text)) throw Error("This text holds half of a character (a surrogate), which no token stands for.");
    const parts = text.split(this.start.content).map((part) => (part.match(PIECE) ?? []).flatMap((piece) => this.merged(piece)));
    return parts.flatMap((part) => [this.start.id, ...part]);
  }

  merged(piece) {
    const parts = [...new TextEncoder().encode(piece)].map((byte) => this.letters.get(byte));
    for (;;) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.ranks.get(`${parts[i]}\n${parts[i + 1]}`) ?? Infinity;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return parts.map((part) => this.ids.get(part));
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }
}

class Engine {
  // `config` as in the model's card, `file` its safetensors
  constructor(config, tokenizer, file) {
    this.config = config;
    this.tokenizer = new Tokenizer(tokenizer);
    const view = new DataView(file.buffer, file.byteOffset), length = Number(view.getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
    const numbers = new Uint16Array(file.slice(8 + length).buffer);
    this.w = {};
    for (const [name, { data_offsets: at }] of Object.entries(header).filter(([key]) => key !== "__metadata__"))
      this.w[name] = widened(numbers, at[0] / 2, at[1] / 2);
    const { d_vocab: V, d_model: D } = config, U = this.w["unembed.W_U"];
    for (let d = 0; d < D; d++) {
      let total = 0;
      for (let at = d * V; at < (d + 1) * V; at++) total += U[at];
      for (let at = d * V; at < (d + 1) * V; at++) U[at] -= total / V; // as `load` does: every logit shifts alike
    }
    this.U = turned(U, D, V);
    this.turned = {};
    for (const name of Object.keys(this.w).filter((key) => key.includes("attn")))
      this.turned[name] = turned(this.w[name], ...(name.endsWith("O") ? [config.d_head, D] : [D, config.d_head]));
    this.lengths = new Map(); // W_O W_Oᵀ of each head
    this.kept = new Map(); // of the last text: runs, by their cuts, and what heads make of equal streams
    this.heads = [...Array(config.n_layers).keys()].flatMap((layer) => [...Array(config.n_heads).keys()].map((head) => [layer, head]));
  }

  weights(layer, part, isTurned) {
    return (isTurned ? this.turned : this.w)[`blocks.${layer}.attn.W_${part}`];
  }

  once(key, make) {
    if (!this.kept.has(key)) this.kept.set(key, make());
    return this.kept.get(key);
  }

  run(tokens, cuts = []) {
    if (this.text !== tokens.join() || this.kept.size > 2000) this.kept.clear();
    this.text = tokens.join();
    return this.once(`run ${cuts}`, () => {
      const { d_model: D, n_heads: H, n_layers } = this.config, embedded = new Float32Array(tokens.length * D);
      tokens.forEach((t, i) => embedded.set(this.w["embed.W_E"].subarray(t * D, (t + 1) * D), i * D));
      const found = { tokens, cuts, stream: [embedded], heads: {}, rows: new Map() };
      for (let layer = 0; layer < n_layers; layer++) {
        const next = found.stream[layer].slice(), placed = next.map((value, i) => value + this.w["pos_embed.W_pos"][i]);
        for (let head = 0; head < H; head++) {
          const name = `${layer}.${head}`, made = this.attend(found, layer, head, placed);
          const written = cuts.includes(name) ? new Float32Array(made.written.length) : made.written;
          for (let i = 0; i < next.length; i++) next[i] += written[i];
          found.heads[name] = { ...made, written };
        }
        found.stream.push(next);
      }
      return found;
    });
  }

  attend(run, layer, head, placed) {
    // what a head makes of the stream; cuts behind it, or beside it, change nothing
    const { d_model: D, d_head: d } = this.config, n = run.tokens.length, name = `${layer}.${head}`, x = run.stream[layer];
    const doors = run.cuts.map((one) => one.match(/^(.*)([qkv])(.*)$/)).filter((door) => door?.[3] === name);
    const hidden = run.cuts.filter((one) => !one.includes(".")).map(Number);
    const before = run.cuts.filter((one) => !/[qkv]/.test(one) && !(Number(one.split(".")[0]) >= layer && one.includes(".")));
    const others = layer > 1 ? run.cuts : doors.map((door) => door[0]); // doors of layers between move the stream, too
    return this.once(`${name} ${before} ${others}`, () => {
      const [q, k, v] = ["q", "k", "v"].map((path) => {
        let from = path === "v" ? x : placed;
        for (const [, writer] of doors.filter((door) => door[2] === path)) from = from.map((value, i) => value - run.heads[writer].written[i]);
        return times(from, n, D, this.weights(layer, path.toUpperCase(), true), head * D * d, d);
      });
      const scores = times(q, n, d, padded(k, n, d), 0, Math.ceil(n / 4) * 4), wide = scores.length / n;
      const pattern = new Float32Array(n * n), z = new Float32Array(n * d);
      for (let i = 0; i < scores.length; i++) scores[i] /= Math.sqrt(d);
      for (let i = 0; i < n; i++) {
        const row = softmax(scores.slice(i * wide, i * wide + i + 1).map((s, j) => (j < i && hidden.includes(j) ? -Infinity : s)));
        pattern.set(row, i * n);
        for (let j = 0; j <= i; j++) for (let c = 0; c < d; c++) z[i * d + c] += row[j] * v[j * d + c];
      }
      const W_O = this.weights(layer, "O");
      const outer = this.lengths.get(name) ?? this.lengths.set(name, gram(W_O, head * d * D, d, D)).get(name);
      const lengths = Array.from(run.tokens, (_, i) => form(outer, v, i * d, d));
      return { scores: Array.from({ length: n }, (_, i) => scores.subarray(i * wide, i * wide + n)), pattern, lengths,
        written: times(z, n, d, this.weights(layer, "O", true), head * d * D, D) };
    });
  }

  logits(run, i) {
    const { d_model: D, d_vocab: V } = this.config;
    if (!run.rows.has(i)) run.rows.set(i, times(run.stream.at(-1).subarray(i * D, (i + 1) * D), 1, D, this.U, 0, V));
    return run.rows.get(i);
  }

  expected(run, i) {
    // the best guess at a position, and the loss there
    return (run[i] ??= (() => {
      const row = this.logits(run, i), answer = run.tokens[i + 1] ?? -1, token = row.reduce((best, value, t) => (value > row[best] ? t : best), 0);
      const total = row.reduce((all, value) => all + Math.exp(value - row[token]), 0);
      return { token, p: 1 / total, right: answer < 0 ? null : answer === token, loss: answer < 0 ? null : Math.log(total) + row[token] - row[answer] };
    })());
  }

  tokens(text) {
    const tokens = this.tokenizer.encode(text);
    if (tokens.length > MOST) throw Error(`The drawing has room for ${MOST} tokens, and this text has ${tokens.length}: take a part of it.`);
    return tokens;
  }

  facts(state, soon) {
    // `soon`: without what is expected elsewhere in the text, which takes longer than all the rest
    const { n_layers, n_heads, d_model: D } = this.config, tokens = state.tokens, n = tokens.length;
    const base = this.run(tokens), now = this.run(tokens, state.cuts), cut = state.cuts.length > 0;
    const name = (token) => this.tokenizer.names[token].replaceAll(" ", "·").replaceAll("\n", "↵").replaceAll("\t", "→");
    const i = Math.min(state.position ?? n - 1, n - 1), token = state.token ?? this.expected(now, i).token;
    const p = softmax(this.logits(now, i)), q = softmax(this.logits(base, i)), best = soon ? null : tokens.map((_, at) => this.expected(now, at));
    const answer = tokens[i + 1] ?? -1, rows = largest(p, 3);
    for (const other of [this.expected(base, i).token, answer, token]) if (other >= 0 && !rows.includes(other)) rows.push(other);
    const mean = (run) => sum(tokens.slice(0, -1).map((_, at) => this.expected(run, at).loss)) / (n - 1);
    const row = (table, at = i) => Array.from(table.subarray(at * n, at * n + at + 1));
    const names = this.heads.map((head) => head.join(".")), each = (value) => Object.fromEntries(names.map((head) => [head, value(head)]));
    const weighted = (run, head) => run.heads[head].pattern.map((share, at) => share * run.heads[head].lengths[at % n]);
    const values = (run, head) => (state.weighted ? weighted(run, head) : run.heads[head].pattern);
    const curves = (head) => {
      const all = (run) => tokens.map((_, at) => row(values(run, head), at));
      const most = state.weighted ? Math.max(...weighted(base, head)) : 1;
      return { now: all(now), was: cut ? all(base) : null, most };
    };
    return {
      ...state, position: i, token, called: name(token), names: tokens.map(name), layers: n_layers, heads: n_heads, text: true, norm: false,
      words: state.cuts.map(inWords), best: best && best.map((one) => [name(one.token), one.p, one.right]),
      rows: rows.map((one) => ({ token: one, name: name(one), p: p[one], before: cut ? q[one] : null, right: one === answer })),
      came: answer < 0 ? null : [name(answer), this.expected(now, i).loss, cut ? this.expected(base, i).loss : null],
      mean: n < 2 || soon ? null : [mean(now), cut ? mean(base) : null],
      glance: each((head) => row(now.heads[head].pattern)),
      written: each((head) => Math.hypot(...now.heads[head].written.subarray(i * D, (i + 1) * D))),
      curves: Object.fromEntries(state.open.map((head) => [head, curves(head)])),
      panel: this[state.view](state, base, now, i, token, name, cut),
    };
  }

  attention(state, base, now, i, token, name, cut) {
    const head = state.open.at(-1), n = now.tokens.length;
    if (!head) return null;
    const { scores, pattern, lengths } = now.heads[head], share = pattern.subarray(i * n, i * n + i + 1);
    const line = (at) => ({ at, name: name(now.tokens[at]), score: scores[i][at], share: share[at], gives: share[at] * lengths[at], length: lengths[at],
      before: cut ? base.heads[head].pattern[i * n + at] : null });
    const first = largest(share, Math.min(5, i + 1)).filter((at) => share[at] > 0), others = Array.from(share.keys()).filter((at) => !first.includes(at));
    const later = Array.from(scores[i].subarray(i + 1)), most = later.indexOf(Math.max(...later)) + i + 1;
    return { head, rows: first.map(line), rest: [others.length, sum(others.map((at) => share[at]))],
      masked: later.length ? { at: most, name: name(now.tokens[most]), score: scores[i][most], count: later.length } : null };
  }

  stream(state, base, now, i, token, name) {
    const { d_model: D, d_vocab: V } = this.config;
    return now.stream.map((level) => {
      const x = level.subarray(i * D, (i + 1) * D), p = softmax(times(x, 1, D, this.U, 0, V));
      return { length: Math.hypot(...x), top: largest(p, 3).map((one) => [name(one), p[one]]) };
    });
  }

  paths(state, base, now, i, token, name, cut) {
    const { d_model: D, d_head: d, n_heads: H } = this.config, u = this.U.subarray(token * D, (token + 1) * D);
    const dot = (x, at) => u.reduce((total, value, k) => total + x[at + k] * value, 0); // `u` is what the logit reads
    const terms = (run) => [["direct", dot(run.stream[0], i * D)], ...this.heads.map((head) => [head.join("."), dot(run.heads[head.join(".")].written, i * D)])];
    const before = cut ? terms(base) : null, logit = (run) => this.logits(run, i)[token];
    const found = { terms: terms(now).map(([term, value], at) => [term, value, cut ? before[at][1] : null]), total: [logit(now), cut ? logit(base) : null], pairs: null };
    if (this.config.n_layers !== 2) return found;
    const n = now.tokens.length, sources = [now.stream[0], ...[...Array(H).keys()].map((head) => now.heads[`0.${head}`].written)];
    found.pairs = [...Array(H).keys()].map((head) => {
      const W_V = this.weights(1, "V"), W_O = this.weights(1, "O"), back = new Float64Array(D), at = head * D * d;
      for (let c = 0; c < d; c++) {
        const to = dot(W_O, at + c * D);
        for (let k = 0; k < D; k++) back[k] += W_V[at + k * d + c] * to;
      }
      return sources.map((source, which) => {
        if (now.cuts.includes(`1.${head}`) || now.cuts.includes(`0.${which - 1}v1.${head}`)) return 0;
        let total = 0;
        for (let s = 0; s <= i; s++) {
          let gives = 0;
          for (let k = 0; k < D; k++) gives += source[s * D + k] * back[k];
          total += now.heads[`1.${head}`].pattern[i * n + s] * gives;
        }
        return total;
      });
    });
    return found;
  }

  doors(state) {
    if (this.config.n_layers < 2) return { why: "With fewer than two layers, no head reads what another one wrote." };
    const reader = state.open.filter((head) => head[0] !== "0").at(-1) ?? "1.0", later = Number(reader.split(".")[1]);
    const { d_model: D, d_head: d, n_heads: H } = this.config, size = D * d, scores = {};
    const trace = (a, m, b) => {
      // tr(A M B Mᵀ), the square of the length of a product of two circuits
      let total = 0;
      for (let p = 0; p < d; p++) for (let r = 0; r < d; r++) {
        let left = 0, right = 0;
        for (let s = 0; s < d; s++) [left, right] = [left + a[p * d + s] * m[s * d + r], right + m[p * d + s] * b[s * d + r]];
        total += left * right;
      }
      return total;
    };
    const eye = Float64Array.from({ length: d * d }, (_, at) => Number(at % (d + 1) === 0));
    for (const path of "qkv") {
      const [near, far] = { q: "QK", k: "KQ", v: "VO" }[path], A = this.weights(1, near), B = this.weights(1, far);
      const beyond = gram(B, later * size, far === "O" ? d : D, far === "O" ? D : d, far !== "O"), own = gram(A, later * size, D, d, true);
      scores[path] = [...Array(H).keys()].map((head) => {
        const written = gram(this.weights(0, "V"), head * size, D, d, true), W_O = this.weights(0, "O");
        const meets = times(W_O.subarray(head * size, (head + 1) * size), d, D, this.weights(1, near, true), later * size, d);
        const long = trace(written, eye, gram(W_O, head * size, d, D)) * trace(own, eye, beyond);
        return Math.sqrt(trace(written, meets, beyond) / long);
      });
    }
    return { reader, scores, shut: state.cuts.filter((one) => one.endsWith(reader) && /[qkv]/.test(one)) };
  }
}

function inWords(cut) {
  const door = cut.match(/^(.*)([qkv])(.*)$/);
  if (door) return `${door[1]} in the ${{ q: "queries", k: "keys", v: "values" }[door[2]]} of ${door[3]}`;
  return cut.includes(".") ? `head ${cut}` : `position ${cut}`;
}
