// Where a voxel lies. ISMRMRD: the header's position is that of voxel floor(n/2) along each axis, in mm (LPS).

function sizes(head) {
  return head.matrix.map((n, a) => head.fov_mm[a] / Math.max(1, n));
}

/** Patient position [mm] of voxel (x, y, z); fractions are between voxels' centres. */
export function positionOf(head, x, y, z) {
  const size = sizes(head);
  const offset = [x, y, z].map((v, a) => (v - Math.floor(head.matrix[a] / 2)) * size[a]);
  return [0, 1, 2].map(
    (i) => head.position[i] + offset[0] * head.read_dir[i] + offset[1] * head.phase_dir[i] + offset[2] * head.slice_dir[i],
  );
}

/** Distance [mm] of two points of a plane, given in voxels. */
export function distance(head, from, to) {
  const size = sizes(head);
  return Math.hypot((to[0] - from[0]) * size[0], (to[1] - from[1]) * size[1]);
}
