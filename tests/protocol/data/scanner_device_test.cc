#include "protocol/data/scanner_device.h"

#include <gtest/gtest.h>

namespace echotrain::protocol {
namespace {

std::string with(const std::string& system) {
  return "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><acquisitionSystemInformation>" + system +
         "</acquisitionSystemInformation></ismrmrdHeader>";
}

TEST(Device, IsTheSerialNumberElseTheIdAtItsInstitution) {
  EXPECT_EQ(
      device_of(with("<systemVendor>V</systemVendor><institutionName>Clinic</institutionName><deviceID>7</deviceID>"
                     "<deviceSerialNumber> 41 </deviceSerialNumber>")),
      "serial 41");
  EXPECT_EQ(device_of(with("<institutionName>Clinic</institutionName><deviceID>7</deviceID>")), "id 7 of Clinic");
  EXPECT_EQ(device_of(with("<deviceID>7</deviceID><deviceSerialNumber> </deviceSerialNumber>")), "id 7 of ");
  EXPECT_EQ(device_of(with("<stationName>7</stationName>")), "");
  EXPECT_EQ(device_of("<a:ismrmrdHeader xmlns:a=\"x\"><a:acquisitionSystemInformation><a:deviceSerialNumber>5"
                      "</a:deviceSerialNumber></a:acquisitionSystemInformation></a:ismrmrdHeader>"),
            "serial 5");
  EXPECT_EQ(device_of("Dummy XML header"), "");
}

}  // namespace
}  // namespace echotrain::protocol
