// Numbers for people.

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i + 1 < units.length) {
    n /= 1024;
    i += 1;
  }
  return `${i === 0 ? n : n.toFixed(n < 10 ? 2 : 1)} ${units[i]}`;
}

export function duration(s) {
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(s / 60);
  return minutes < 60 ? `${minutes} min ${Math.floor(s % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function number(value) {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.01 || size >= 1e6)) return value.toExponential(3);
  return Number.isInteger(value) ? String(value) : value.toPrecision(5);
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour12: false });
}
