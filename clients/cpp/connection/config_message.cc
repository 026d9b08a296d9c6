#include "clients/cpp/connection/config_message.h"

#include "clients/cpp/base/pipeline_files.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/connection/remote_options.h"

namespace echotrain::client {

protocol::Buffer config_message(const std::string& config, bool text_wanted, const std::string& token) {
  const bool as_text = text_wanted || is_pipeline_file(config);
  if (!as_text && config.find('/') != std::string::npos)
    throw UsageError("-c " + config + ": there is no such .yaml file, and names of a server's pipelines have no '/'");
  protocol::Buffer bytes;
  encode_config(config, as_text ? pipeline_text(config) : "", token, bytes);
  return bytes;
}

}  // namespace echotrain::client
