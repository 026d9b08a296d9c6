// Colour maps: greys, and perceptually uniform ones for maps of tissue and for differences.

/** Colours at equal distances from low to high, as rrggbb. Lipari, navia and vik: Crameri 2023 (MIT), of which lipari and navia
 * are recommended for T1 and T2 (Fuderer et al., MRM 93, 2025); viridis: matplotlib (CC0). */
const kColours = {
  grey: "000000 ffffff",
  lipari: "031326 092946 1b4064 3c5478 575c7a 6b5f76 806070 97616a b26364 cf695e e57b62 ea946f e6aa7f e6c095 efdab5 fdf5da",
  navia: "031327 052648 083b6a 105185 1e6491 28728f 327c89 3c8583 478f7d 549b75 65ab6c 7fbd68 a7d278 cde19b e9ecbe fcf4d9",
  vik: "001261 022d72 034783 116496 3c85ac 71a8c4 a7c9da dbe5e9 eed9cd e1b8a0 d39774 c6794c b75a26 983307 761706 590008",
  viridis: "440154 481a6c 472f7d 414487 39568c 31688e 2a788e 23888e 1f988b 22a884 35b779 54c568 7ad151 a5db36 d2e21b fde725",
};
const kOfQuantity = { T1: "lipari", T2: "navia", T2star: "navia", B0: "vik" };
const kBlack = 0xff000000;
const tables = new Map();

/** The name of the colours for what /live/image says of an image: greys but for maps. */
export function coloursOf({ map }) {
  if (!map) return "grey";
  return (!map.deviation && kOfQuantity[map.quantity]) || "viridis";
}

/** 256 colours from low to high, and black for what is no number, as pixels of ImageData. */
export function tableOf(name) {
  if (!tables.has(name)) {
    const points = kColours[name].split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
    const table = new Uint32Array(257).fill(kBlack);
    for (let i = 0; i < 256; i += 1) {
      const at = (i / 255) * (points.length - 1);
      const before = Math.min(Math.floor(at), points.length - 2);
      const [red, green, blue] = points[before].map((from, c) => Math.round(from + (at - before) * (points[before + 1][c] - from)));
      table[i] = kBlack | (blue << 16) | (green << 8) | red;
    }
    tables.set(name, table);
  }
  return tables.get(name);
}
