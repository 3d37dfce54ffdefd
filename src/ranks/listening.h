#pragma once
// Where a store may be reached.

#include <string>

namespace orthobatch {

/// While it lives, a socket that this thread would bind to every address of the host is bound to
/// this one alone. (c10d's store has no setting for it, and listens to the world.)
class ListenOnlyAt {
 public:
  /// A name or a number; throws RankError where it is none of this host's, or where the port, if it
  /// is not 0, is taken.
  ListenOnlyAt(const std::string& address, int port);
  ~ListenOnlyAt();
  ListenOnlyAt(const ListenOnlyAt&) = delete;
  ListenOnlyAt& operator=(const ListenOnlyAt&) = delete;
};

}  // namespace orthobatch
