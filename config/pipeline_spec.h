// A pipeline spec is a pipeline file as data. Gadgets and their parameters are checked elsewhere
// (gadgets/api/registry.h).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/exposed_spec.h"
#include "config/node.h"

namespace echotrain::config {

enum class BackendChoice { automatic, cpu, cuda };
std::string_view to_string(BackendChoice choice);  ///< "auto", "cpu", "cuda"

/// The choice for frames that are complete while others still wait to be computed.
enum class WhenBehind {
  wait,        ///< they wait: every image comes, however late
  drop_oldest  ///< of those that wait only the newest is computed: images are never older than need be
};

/// The rule by which readouts make one image (docs/pipelines.md, "Frames").
struct FrameRule {
  enum class Kind {
    automatic,  ///< a last-in flag with no line missing, else a change of key, else the end of the scan
    until,      ///< a flag: last_in_slice, last_in_repetition, ... on the closing readout
    readouts,   ///< every `readouts` readouts, a new frame starting every `stride`
  };
  Kind kind = Kind::automatic;
  std::string until;  ///< one of until_flags()
  std::int64_t readouts = 0;
  std::int64_t stride = 0;                    ///< = readouts when not given; smaller gives a sliding window
  WhenBehind when_behind = WhenBehind::wait;  ///< of Kind::readouts
  Mark mark;
};
/// Returns the flags that may close a frame, by the names used in YAML: last_in_encode_step1, ..., last_in_measurement.
std::vector<std::string> until_flags();

/// The unit of the trajectory on the wire, which does not declare it.
enum class TrajectoryUnit { cycles_per_pixel, cycles_per_fov, radians_per_pixel, cycles_per_m };
std::string_view to_string(TrajectoryUnit unit);

/// The kind of data that enters a pipeline.
enum class Input { readouts, images };

/// A scan that outlives its connection (key `detach`, docs/long_reconstructions.md).
struct DetachSpec {
  double keep_h = 24;     ///< for so long after its end it stays
  bool to_client = true;  ///< its images wait for the client
  bool to_dicom = true;   ///< they go to the DICOM peers
  bool power = false;     ///< what is acknowledged has been forced to the disk
};

struct GadgetSpec {
  std::string name;
  Node parameters;  ///< null or a map
  Mark mark;
};

/// The largest number of gadgets in one pipeline. Each calls the next, so a thread's stack must hold this many calls.
inline constexpr std::size_t kMostGadgets = 64;

struct PipelineSpec {
  std::string name;
  std::string description;
  std::vector<std::string> aliases;  ///< other names a client may ask for ("default.xml")
  BackendChoice backend = BackendChoice::automatic;
  Mark backend_mark;  ///< line 0 when the file names no backend
  Input input = Input::readouts;
  FrameRule frame;
  TrajectoryUnit trajectory_unit = TrajectoryUnit::cycles_per_pixel;
  std::vector<GadgetSpec> gadgets;
  std::vector<GadgetSpec> accelerated;   ///< the chain of scans whose header announces R > 1; empty: `gadgets`
  std::vector<std::string> dicom_peers;  ///< key `dicom: {send_to: NAME}`: peers of the server that get the images
  Mark dicom_mark;
  std::optional<DetachSpec> detach;
  std::vector<ExposedSpec> exposed;  ///< key `expose`: parameters that a host may set; their defaults are in the chains
  Mark mark;
  std::string text;  ///< as it was read, for other ranks and to tell pipelines apart
};

/// Returns what each gadget called `gadget`, of all chains and their branches, has for its parameter in the file; null
/// where the file leaves it to the gadget.
std::vector<Node> parameters_of(const PipelineSpec& spec, std::string_view gadget, std::string_view parameter);
/// Gives the parameter of all of them this value.
void set_parameter(PipelineSpec& spec, std::string_view gadget, const std::string& parameter, const Node& value);

/// Reads a pipeline from YAML text. `name` stands for the file in messages. Throws ConfigError with file:line:column.
/// For XML (a Gadgetron configuration), the error says that it is XML and what to send instead.
PipelineSpec read_pipeline(std::string_view text, const std::string& name);
PipelineSpec read_pipeline_file(const std::filesystem::path& file);

/// The config that a client sends: a pipeline, or the name of one the server has, and a token if one is required.
struct ClientConfig {
  std::string token;                     ///< key `token`; empty when there is none
  std::string use;                       ///< key `use`: a pipeline's name; empty: `pipeline`, or the server's default
  std::optional<PipelineSpec> pipeline;  ///< all other keys
};
/// Reads it. Throws ConfigError as read_pipeline() does, never with the token in it. `token`, if given, gets the token
/// even then, if it could be read.
ClientConfig read_client_config(std::string_view text, const std::string& name, std::string* token = nullptr);

/// The pipelines that may be asked for by name: every *.yaml of some folders. Fixed once loaded; names and aliases are
/// looked up as strings and never become paths.
class PipelineLibrary {
 public:
  /// Reads `folders` in order; a later folder's pipeline replaces one of the same name. Names of other servers
  /// (config/foreign_names.h) become aliases where no file claims them. Throws ConfigError on the first bad file, on an
  /// alias that two pipelines claim, and on a folder that cannot be read.
  explicit PipelineLibrary(const std::vector<std::filesystem::path>& folders);
  PipelineLibrary() = default;

  /// Finds a pipeline by name or alias, also after cutting a ".yaml" or ".xml" ending. nullptr when there is none.
  const PipelineSpec* find(std::string_view name) const;
  const std::vector<PipelineSpec>& all() const { return specs_; }
  std::vector<std::string> names() const;  ///< sorted
  /// Says that there is no pipeline of this name, and what to do: the nearest one, all of them where none is near.
  std::string unknown(std::string_view name) const;
  /// Returns what a client should know whose name of another server was found: the pipeline, and what differs. Empty
  /// where a pipeline file has the name.
  std::string remark_on(std::string_view name) const;
  /// Keeps the pipelines for which `serves` is true, and returns the names of the others.
  std::vector<std::string> keep_if(const std::function<bool(const PipelineSpec&)>& serves);

 private:
  void adopt_foreign_names();

  std::vector<PipelineSpec> specs_;
  std::set<std::string, std::less<>> adopted_;  ///< aliases that no file has
};

}  // namespace echotrain::config
