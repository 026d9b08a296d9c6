// This header is precompiled for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include ".ci/pch/common_pch.h"
