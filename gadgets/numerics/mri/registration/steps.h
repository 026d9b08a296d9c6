// The steps of registration at one size of images, for all images of a batch. Internal to register_images().
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics::registration {

// Images and fields as in registration.h, after local_contrast(). References: [1 or batch, y, x]. Systems are the
// products of J = (jx, jy) and r: [image, 5, y, x] in the order jx jx, jy jy, jx jy, jx r, jy r. Where p + u lies
// beyond the image, J and r are 0.

/// to[i, 0..2, y, x] = the products of the reference's gradient.
void gradient_products(Context& context, DeviceView<const float> reference, DeviceView<float> to);

/// to[b, 0..1, y, x] = J r, r = F - W, J = grad F; 0 of images whose floor of local_contrast() is 0.
void difference_forces(Context& context, DeviceView<const float> reference, DeviceView<const float> images,
                       DeviceView<const float> floors, DeviceView<const float> fields, DeviceView<float> to);

/// moved[b] = W; products[b, 0..1] = W W, W F.
void move_images(Context& context, DeviceView<const float> reference, DeviceView<const float> images,
                 DeviceView<const float> fields, DeviceView<float> moved, DeviceView<float> products);
/// to[i] = F F.
void squares(Context& context, DeviceView<const float> reference, DeviceView<float> to);
/// Systems of r = (n F - p W) / w, J = (p grad W + n grad F) / (2 w); p = products[1], n^2 = products[0] squares, all
/// of them smoothed by now, and w^2 = n^2 + 0.0025, which leaves out where there is no contrast. p / w is the
/// correlation.
void correlation_systems(Context& context, DeviceView<const float> reference, DeviceView<const float> squares,
                         DeviceView<const float> moved, DeviceView<const float> products,
                         DeviceView<const float> fields, DeviceView<float> to);

/// to(p) = u(p + v) + v, v = (A + damping)^-1 f, not longer than a voxel. A: [1 or batch, >= 3, y, x], f: planes 0, 1
/// from `forces` on, of `planes` planes for each image.
struct SmoothedSystems {
  const float *products, *forces;
  std::int64_t products_stride, forces_stride;  ///< elements from one image to the next
};
void take_step(Context& context, const SmoothedSystems& systems, DeviceView<const float> fields, DeviceView<float> to);

/// motions: [batch, 3], a rotation by the first [rad] from x towards y around the image's middle, then a shift along x
/// and y [voxels]. Composes each with the one that solves its image's systems; sums is scratch: at least 9 (y + 1)
/// batch.
void take_rigid_step(Context& context, DeviceView<const float> systems, DeviceView<double> sums,
                     DeviceView<float> motions);
void rigid_fields(Context& context, DeviceView<const float> motions, DeviceView<float> fields);
/// Doubles the shifts.
void refine_motions(Context& context, DeviceView<float> motions);

/// Fields of images of half the size (halve(), smooth.h), at the full size.
void refine_fields(Context& context, DeviceView<const float> fields, DeviceView<float> to);

}  // namespace echotrain::numerics::registration
