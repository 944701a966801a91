// Weights: the block of a layer is decoded when the layer is first shown

const decoded = new Map(); // decoded blocks by name
const decoding = new Map(); // promises of blocks by name

async function inflate(name) {
  const text = atob(find(name).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function joinPlanes(bytes) {
  const count = bytes.length / 2;
  const units = new Uint16Array(count);
  for (let i = 0; i < count; i++) units[i] = (bytes[i] << 8) | bytes[count + i];
  return units;
}

async function decode(layer) {
  if (layer.mask && !decoded.has(layer.mask)) decoded.set(layer.mask, await inflate(layer.mask));
  decoded.set(layer.weights, joinPlanes(await inflate(layer.weights)));
}

function load(layer) {
  if (!decoding.has(layer.weights)) decoding.set(layer.weights, decode(layer).then(refresh, reportDecodingError));
  return decoding.get(layer.weights);
}

async function loadAll() {
  for (const kind of Object.values(trace.kinds)) for (const layer of kind.layers) await load(layer);
}

function reportDecodingError(error) {
  find("notice").textContent = `The weights cannot be decoded in this browser (${error.message}); a current one can.`;
  find("notice").hidden = false;
}

// One head's weights as a function of query and key; null until they are decoded
function reader(layer = layerOf(), head = state.head) {
  const units = decoded.get(layer.weights);
  if (!units) return null;
  const [nQueries, nKeys] = [queries().length, keys().length];
  const start = head * nQueries * nKeys; // laid out [heads keys queries]
  const read = (query, key) => units[start + key * nQueries + query];
  const bits = layer.mask && decoded.get(layer.mask);
  const first = layer.masks > 1 ? start : 0; // one mask for each head, or one for all: [heads queries keys]
  read.masked = (query, key) => {
    if (!bits) return false;
    const bit = first + query * nKeys + key;
    return !((bits[bit >> 3] >> (7 - (bit & 7))) & 1);
  };
  return read;
}

// The key of a query's largest visible weight
function largest(read, query, visible) {
  let [best, bestKey] = [-1, -1];
  for (const key of visible) if (read(query, key) > best) [best, bestKey] = [read(query, key), key];
  return { query, key: bestKey, units: Math.max(0, best) };
}
