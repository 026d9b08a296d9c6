// A trace ID joins what several programs log of one scan (W3C Trace Context, www.w3.org/TR/trace-context).
#pragma once

#include <string>
#include <string_view>

namespace echotrain::protocol {

/// Returns the trace ID, 32 hexadecimal digits, of a `traceparent` ("00-TRACE_ID-PARENT_ID-FLAGS"; later versions may
/// have more behind it); empty for a text that is none, or whose IDs are zero.
std::string trace_id_of(std::string_view traceparent);

/// Returns a random trace ID. Thread-safe.
std::string new_trace_id();

}  // namespace echotrain::protocol
