package node

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// capabilityNames are the capabilities in the order of their bits.
const capabilityNames = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE " +
	"NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE " +
	"SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL " +
	"SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"

// capSet is a list of capability names.
type capSet []string

func (c capSet) has(name string) bool { return slices.Contains(c, name) }

// capabilities are those that this machine really has: the bounding set of this process.
func capabilities() (capSet, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("read capabilities: %w", err)
	}
	_, rest, _ := strings.Cut(string(data), "CapBnd:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("parse capabilities: %w", err)
	}
	var set capSet
	for bit, name := range strings.Fields(capabilityNames) {
		if mask&(1<<bit) != 0 {
			set = append(set, "CAP_"+name)
		}
	}
	return set, nil
}
