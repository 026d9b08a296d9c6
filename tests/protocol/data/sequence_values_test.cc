// The numbers of a header that differ from image to image.
#include "protocol/data/sequence_values.h"

#include <gtest/gtest.h>

#include <limits>

namespace echotrain::protocol {
namespace {

std::string sequence_header(const std::string& inside) {
  return "<?xml version=\"1.0\"?><ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">" + inside + "</ismrmrdHeader>";
}
using Numbers = std::vector<double>;

TEST(SequenceValuesTest, AreReadInOrder) {
  const std::string xml = sequence_header(
      "<sequenceParameters><TI> 100 </TI><TE>2</TE><TI>50.5</TI><TI>INF</TI></sequenceParameters><userParameters>"
      "<userParameterDouble><name>t2prep_ms</name><value>0</value></userParameterDouble>"
      "<userParameterLong><name>t2prep_ms</name><value>25</value></userParameterLong>"
      "<userParameterString><name>t2prep_ms</name><value>3</value></userParameterString>"
      "<userParameterDouble><name>other</name><value>7</value></userParameterDouble></userParameters>");
  EXPECT_EQ(sequence_values(xml, "TI"), (Numbers{100, 50.5, std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(sequence_values(xml, "flipAngle_deg"), Numbers{});
  EXPECT_EQ(user_values(xml, "t2prep_ms"), (Numbers{0, 25}));
}

TEST(SequenceValuesTest, ANumberInTheWrongPlaceIsNoNumber) {
  for (const char* bad : {"-1", "x", "", "1 2", "NaN"}) {
    EXPECT_EQ(sequence_values(sequence_header(std::string("<sequenceParameters><TI>5</TI><TI>") + bad +
                                              "</TI><TI>7</TI></sequenceParameters>"),
                              "TI"),
              Numbers{})
        << bad;
  }
  EXPECT_EQ(sequence_values("no header", "TI"), Numbers{});
}

TEST(SequenceValuesTest, DiffusionHasDirections) {
  const DiffusionValues found = diffusion_values(sequence_header(
      "<sequenceParameters><diffusionDimension>contrast</diffusionDimension>"
      "<diffusion><bvalue>0</bvalue></diffusion><diffusion><gradientDirection><rl>0</rl><ap>-0.6</ap><fh>0.8</fh>"
      "</gradientDirection><bvalue>1000</bvalue></diffusion></sequenceParameters>"));
  EXPECT_EQ(found.b_s_per_mm2, (Numbers{0, 1000}));
  EXPECT_EQ(found.counter, "contrast");
  EXPECT_EQ(found.directions[0], (std::array<double, 3>{0, 0, 0}));
  EXPECT_EQ(found.directions[1], (std::array<double, 3>{0, -0.6, 0.8}));
}

}  // namespace
}  // namespace echotrain::protocol
