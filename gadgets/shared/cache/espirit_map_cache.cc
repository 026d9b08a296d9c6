#include "gadgets/shared/cache/espirit_map_cache.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <new>
#include <string>

namespace echotrain {
namespace {

EspiritMapRequest::Digest digest_of(const HostArray<cfloat>& kspace, const numerics::EspiritOptions& options,
                                    const numerics::Shape& image) {
  const std::string text =
      fmt::format("ESPIRiT v1 kspace={} image={} calibration={} kernel={} threshold={:a} crop={:a} sets={}\n",
                  kspace.shape().text(), image.text(), options.calibration, options.kernel, options.threshold,
                  options.crop, options.sets);
  EspiritMapRequest::Digest digest{};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sha(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (!sha || EVP_DigestInit_ex(sha.get(), EVP_sha256(), nullptr) != 1 ||
      EVP_DigestUpdate(sha.get(), text.data(), text.size()) != 1 ||
      EVP_DigestUpdate(sha.get(), kspace.data(), static_cast<std::size_t>(kspace.size()) * sizeof(cfloat)) != 1 ||
      EVP_DigestFinal_ex(sha.get(), digest.data(), nullptr) != 1)
    throw std::bad_alloc();
  return digest;
}

}  // namespace

std::shared_ptr<const EspiritMapRequest::Made> EspiritMapRequest::make(numerics::Context& context) const {
  const auto lines = kspace.lock();
  if (!lines) throw std::logic_error("coil maps are asked for without their k-space");
  const Array<cfloat> there = context.upload<cfloat>(lines->view());
  return std::make_shared<const Made>(Made{numerics::espirit_maps(context, there.view(), options, image)});
}

Array<cfloat> cached_espirit_maps(numerics::Context& context, const Array<cfloat>& kspace,
                                  const numerics::EspiritOptions& options, const numerics::Shape& image) {
  const auto lines = std::make_shared<const HostArray<cfloat>>(context.download<cfloat>(kspace.view()));
  const EspiritMapRequest request{digest_of(*lines, options, image), options, image, lines};
  const std::shared_ptr<const EspiritMapRequest::Made> made =
      context.resources().get<EspiritMapCache>().get(context, request).object;
  // The holder of the maps holds the cache's object, which is dropped only when nobody uses it.
  return {std::shared_ptr<void>(made, made->maps.memory().get()), made->maps.shape()};
}

}  // namespace echotrain
