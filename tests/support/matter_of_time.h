// A matter of time is an assertion that a busy machine moves.
#pragma once

namespace echotrain {

/// "EXPECT_LT(took, bound) << kMatterOfTime": where all failures of tests with the label "timing" begin so,
/// .ci/common.sh runs these tests again. Texts, sums, bits and statuses never do.
inline constexpr char kMatterOfTime[] = "a matter of time: ";

}  // namespace echotrain
