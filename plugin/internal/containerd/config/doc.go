// Package config knows containerd's configuration files: it reads what is on disk, renders one drop-in per runtime
// handler of quiesce, splices the import of the drop-ins into the root file, and checks the result before anybody
// restarts containerd for it.
//
// # Contract
//
// Nothing here writes to the host: Read looks, Config.Change returns the files that have to change, Check works in a
// temporary directory. The caller writes the changes atomically and in their order, with which containerd may be started
// at any point between; directories that do not exist are made 0755, root:root. Its temporary files must not end in
// .toml: they would be imported. A Config is a snapshot: when a file changes after Read, the caller sees it by comparing
// Change.Old with the disk.
//
// Change is a function of the files and of the wanted handlers. Asked twice it answers with nothing the second time, and
// wanting no handler at all gives every byte of everybody's files back as it was. A file of somebody else's is never
// re-marshalled: we insert text, and take exactly that out again. When they have changed the file since, ours goes and
// theirs stays.
//
// # Where a handler goes
//
// A handler is one file DIR/quiesce-HANDLER.toml. DIR is a directory of which the root file on disk already imports
// *.toml (the one that has drop-ins of ours, else conf.d beside the root file, else the first that exists). If there is
// none, DIR is conf.d beside the root file, and we import its quiesce-*.toml and nothing else: a wider glob would bring
// to life whatever lies in the directory unused, and nobody but us can come to rely on ours. The built-in default of
// containerd's imports is no help: it is printed by `config dump` and never loaded (LoadConfig in containerd
// cmd/containerd/server/config/config.go follows the imports of files only). Always a glob: an import of a missing file
// by name keeps containerd from starting.
//
// The drop-in has no version key (a version of its own above the root's makes containerd 2.3 refuse to start, and makes
// 2.0 to 2.2 lose the root's settings) and uses the plugin id where the root's runtimes are:
//
//	root                                       drop-in
//	version 3 or 4                             io.containerd.cri.v1.runtime
//	version 2                                  io.containerd.grpc.v1.cri
//	version 2 with tables of cri.v1.runtime    io.containerd.cri.v1.runtime
//	no version                                 as version 2, and the drop-in says version = 2
//	no file                                    io.containerd.cri.v1.runtime; the root is made, with version = 3
//	a version that is too new, a template       refused
//
// Before 2.3 a root without a version, or with 1, counts as one of version 3, whatever tables it has. Since 2.3 one with
// version 1 takes the drop-in of version 2: each file's tables are moved before they are merged.
//
// Refused with the line, because containerd itself reads it in two ways or loads no CRI with it: a version below 0, a key
// on the way to the runtimes that is no table, tables of cri beside those of io.containerd.grpc.v1.cri in a file without
// a version, and keys of odd case where both old and new tables of CRI are.
//
// # Where no drop-in can be
//
// containerd before 2.0 does not merge a plugin's tables: the last file that has one wins. There our tables go into that
// file, or into the root when none has any, in one part between two comments; each handler has a comment with its
// entry and digest. Below an inline table there can be no table and inside it no comment: there they go behind its brace, and
// the part has their text in comments, with which it is found and taken out. One runtime in a file takes the built-in runc away,
// so where the file had none we write that too. A file without a line end at its end gets one, which is
// ours and goes again. A byte order mark stays where that containerd reads over it.
//
// With Place.NRI the first handler turns NRI on there, where it is off by default: in our part, or, when a file has a table
// of NRI that leaves it off, with a marked word or line in that table, which goes with the last handler.
//
// Where the root is made from a template at each start (Place.Template) and imports no directory, the part goes to the
// end of the template, which is text to us and never parsed; a template of k3s or rke2 that is not there is made.
//
// # Handlers of somebody else
//
// A handler that another file has is refused, or adopted when Handler.Adopt says so: its lines become comments behind a
// mark, where they are, and lines again at removal. A handler behind runc's own shim gets the cgroup driver and the
// snapshotter of the node's runc handler, unless it chooses.
//
// # What Check proves
//
// That containerd's own loader takes the files, that every import by name exists, that every wanted handler arrives with
// its type, options and settings, that none of the removed ones is left but one that was adopted, that the default
// runtime exists, that CRI is not disabled under a new handler, and that nothing else in the whole tree is different: in
// the loader's view (before 2.0, in that of its rules for merging) and, given the node's containerd, in that one's
// (`config dump`). Not proved: that a shim exists, or that CRI accepts the meaning of a setting.
package config
