// Package host puts a node, or the image of one, in order for quiesce, and takes quiesce off it again.
//
// What belongs on a node:
//
//	/opt/quiesce/bin/quiesce, quiesce-installer      and links to them in /usr/local/bin, if that can be written
//	/var/lib/quiesce                                 the stage
//	/etc/quiesce/config.toml                         the default settings, or given ones; without those a file that is there is never changed
//	/etc/systemd/system/quiesce*.service             enabled by the links that `systemctl enable` would make
//	/run/quiesce/booted                              on a running node: keeps the boot unit from running before the next boot
//
// Every check comes before the first write. Every file is written by stage.Tree, so it is wholly old or wholly new, and
// what is right already is not written: after a crash, the same command again ends in the same state.
// NRI needs nothing here: it is on by default since containerd 2.0.
package host
