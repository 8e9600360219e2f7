package doctor

import "time"

// Facts are what is known of a node.
type Facts struct {
	Settings error // the configuration cannot be used; defaults were taken

	Runtime       string // the runtime's unit
	Version       string // containerd's, as CRI tells it; empty: it does not answer
	RuntimeError  error
	RuntimeConfig error // containerd's configuration cannot be read
	NRI           NRI

	Units     map[string]Unit // by name, quiesce's own, the runtime's and the kubelet's
	Kubelet   string          // the kubelet's unit; empty: there is none of its own
	UnitError error           // systemd does not answer
	Scopes    []Unit          // of containers, where systemd keeps the cgroups
	ScopeFile bool            // the drop-in for them is there

	Delay      time.Duration // logind's InhibitDelayMaxSec, as it is in effect
	DelayError error
	Deadline   time.Duration // of a drain
	Delayers   []string      // who delays a shutdown, without quiesce

	KubeletGrace time.Duration // of the kubelet's own graceful node shutdown; 0: it is off
	KubeletFile  string        // that says so

	Daemon      error // the daemon does not answer
	Connected   bool  // it is registered with NRI
	Notes       []string
	Stage       []Room
	StageError  error
	Interrupted bool // an apply ended before it was done, and none is at work
	Frozen      bool // containers may be frozen, and no apply is at work
	Stuck       []string
	Rejected    int

	Restarters    []string // what restarts services by itself after an upgrade
	DuringUpgrade bool     // the setting
	Logind        bool     // the setting
	Draining      string   // since when, if a drain's fence is up
}

// NRI is how containerd is set up for it. Nil and 0: nothing is set.
type NRI struct {
	Disabled              *bool
	Request, Registration time.Duration
	Socket                string
	SocketError           error // nobody listens there
}

// Unit is what systemd knows of a unit.
type Unit struct {
	Name, Load, Active, File    string // LoadState, ActiveState, UnitFileState
	Stale                       bool   // it is otherwise on disk
	Before, After, PartOf, Want []string
}

// Room is a directory of the stage.
type Room struct {
	Path       string
	Mode, Want uint32
	UID        uint32
	Error      error
}
