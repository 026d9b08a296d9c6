// Registration: the displacements by which images of one slice come to lie on a reference.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// rigid: a rotation and a shift. fast: any smooth motion, between images that differ by motion, and slowly in
/// brightness and contrast. robust: also where contrast changes from tissue to tissue, or is inverted.
enum class Motion { rigid, fast, robust };

struct RegistrationOptions {
  Motion motion = Motion::fast;
  /// The Gaussian [voxels] that smooths fields after each step, 0.5 to 4.8; 0: 1.5 for fast, 2 for robust. Rigid motion
  /// has none.
  float regularisation = 0;
};

/// The least extent of images.
constexpr std::int64_t kLeastRegistered = 16;

/// Finds fields u with images[b](p + u(p)) = reference(p); p = (y, x), u in voxels. They are what displacement.h takes.
///
/// images: [batch, y, x], magnitudes or real parts; reference: [y, x] for all of them, or one for each, [batch, y, x];
/// fields: [batch, 2, y, x]: along x, then along y. An image of which a value is not finite, or whose reference has
/// such a one, gets a field of zeros, as do images without contrast: nothing waits for CUDA. check_registrable() throws
/// for them. Throws std::invalid_argument when shapes do not fit, extents are below kLeastRegistered, or options out of
/// range.
///
/// From images of which each is half of the next one's size, on to the full size, where 16 voxels and more remain of
/// the coarsest; at each size some steps, each of at most a voxel. Images are first divided by their local contrast
/// (smooth.h). A step is the least-squares solution v of (J v = r) over a Gaussian window of 3 voxels around each
/// voxel, with a damping of 0.05 against v = 0; the field becomes u(p + v) + v, and is smoothed.
///   fast:   r = F - W, J = grad F; F the reference, W the moved image. It ends at half the size (of images of 32
///   voxels and more), and its fields are
///           interpolated from there. This is the inverse search of Kroeger et al., ECCV 2016, with a patch for each
///           voxel; Baker & Matthews, IJCV 56:221-255, 2004.
///   robust: r = F - c W, J = (c grad W + grad F) / 2, less where there is no contrast; c the correlation over a
///   Gaussian of
///           2 voxels: Gauss-Newton for the
///           criterion of Hermosillo, Chefd'hotel & Faugeras, IJCV 50:329-343, 2002, squared local cross-correlation.
///   rigid:  the same, but v is the rotation and shift that fit the whole image.
/// Beyond the moving image's border nothing is compared.
void register_images(Context& context, DeviceView<const float> images, DeviceView<const float> reference,
                     const RegistrationOptions& options, DeviceView<float> fields);

/// Throws std::invalid_argument, naming the image, when one of images [batch, y, x] has a value that is not finite, or
/// extents are below kLeastRegistered. Waits for CUDA.
void check_registrable(Context& context, DeviceView<const float> images);

/// to[y, x] = the median over the images [batch, y, x], of an even number the lower one: a reference between all of
/// them. Values must be finite.
void median_image(Context& context, DeviceView<const float> images, DeviceView<float> to);

}  // namespace echotrain::numerics
