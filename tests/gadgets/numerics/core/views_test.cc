// Views of memory in the wrong place do not compile; the compiler does these checks.
#include <gtest/gtest.h>

#include <type_traits>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::numerics {
namespace {

template <class From, class To>
constexpr bool becomes = std::is_convertible_v<From, To>;

static_assert(!becomes<HostView<float>, DeviceView<float>> && !becomes<DeviceView<float>, HostView<float>>);
static_assert(!std::is_constructible_v<DeviceView<float>, HostView<float>>);
static_assert(!std::is_constructible_v<HostView<float>, DeviceView<float>>);
static_assert(!becomes<HostArray<float>, Array<float>> && !becomes<Array<float>, HostArray<float>>);
static_assert(!becomes<View<float>, HostView<float>> && !becomes<View<float>, DeviceView<float>>);

// Code for both places takes either; a writable view converts to a read-only one, and not the other way round.
static_assert(becomes<HostView<float>, View<float>> && becomes<DeviceView<float>, View<float>>);
static_assert(becomes<HostView<float>, View<const float>> && becomes<DeviceView<float>, View<const float>>);
static_assert(becomes<HostView<float>, HostView<const float>> && !becomes<HostView<const float>, HostView<float>>);
static_assert(becomes<DeviceView<float>, DeviceView<const float>>);
static_assert(!becomes<DeviceView<const float>, DeviceView<float>>);
static_assert(!becomes<View<const float>, View<float>>);

// Elements can be read where the CPU can read them; a pointer becomes a device's view only by that name.
template <class V>
concept Indexable = requires(V view) {
  view[0];
};
static_assert(Indexable<HostView<float>> && !Indexable<DeviceView<float>> && !Indexable<View<float>>);
template <class V>
concept FromBraces = requires(float* data, void (*take)(V)) {
  take({data, {3}});
};
static_assert(FromBraces<HostView<float>> && !FromBraces<DeviceView<float>> && !FromBraces<View<float>>);

// A context's own functions, and some of those that compute or read.
template <class V>
concept Uploads = requires(Context& context, V view) {
  context.upload<float>(view);
};
template <class V>
concept Downloads = requires(Context& context, V view) {
  context.download<float>(view);
};
template <class V>
concept Clears = requires(Context& context, V view) {
  context.clear<float>(view);
};
template <class A>
concept CanBePlaced = requires(Context& context, A array) {
  context.place(array);
};
template <class V>
concept SumsThere = requires(Context& context, V view) {
  sum(context, view);
};
template <class V>
concept SumsHere = requires(ThreadPool& threads, V view) {
  on_host::sum(threads, view);
};
template <class V>
concept Transforms = requires(Context& context, V view) {
  fft(context, view, 1, Direction::forward);
};
template <class V>
concept Plans = requires(Context& context, V k) {
  NufftPlan::make(context, k, {4, 4}, NufftOptions{});
};

static_assert(Uploads<HostView<const float>> && !Uploads<DeviceView<const float>>);
static_assert(Downloads<DeviceView<const float>> && !Downloads<HostView<const float>>);
static_assert(Clears<DeviceView<float>> && !Clears<HostView<float>>);
static_assert(CanBePlaced<HostArray<float>> && !CanBePlaced<Array<float>>);
static_assert(SumsThere<DeviceView<const float>> && !SumsThere<HostView<const float>>);
static_assert(SumsHere<HostView<const float>> && !SumsHere<DeviceView<const float>>);
static_assert(Transforms<DeviceView<cfloat>> && !Transforms<HostView<cfloat>>);
static_assert(Plans<HostView<const double>> && !Plans<DeviceView<const double>>);

TEST(Views, OfNothingAreEmpty) {
  EXPECT_EQ(HostView<float>().size(), 0);
  EXPECT_EQ(DeviceView<float>().size(), 0);
  EXPECT_EQ(View<const float>(HostView<float>()).size(), 0);
}

}  // namespace
}  // namespace echotrain::numerics
