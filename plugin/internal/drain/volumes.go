package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"
)

// Mount is a line of mountinfo.
type Mount struct {
	Point  string
	Type   string
	Device string // major:minor: that of a volume's mounts is the same everywhere
}

// Mounts lists the mounts of the node. It must not ask what is mounted: a server that is gone never answers.
type Mounts interface {
	Mounts(ctx context.Context) ([]Mount, error)
}

// mountPoll is how often mounts are looked at.
const mountPoll = 200 * time.Millisecond

// network are file systems that hang once the network is gone.
func network(fstype string) bool {
	return slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "fuse.glusterfs"}, fstype)
}

// podVolume tells the pod of a volume that takes more than the node to unmount: CSI, or a network file system
// (kubernetes pkg/kubelet/kubelet_getters.go: ROOT/pods/UID/volumes/PLUGIN/NAME).
func podVolume(m Mount) (uid string, ok bool) {
	_, rest, found := strings.Cut(m.Point, "/pods/")
	uid, volume, _ := strings.Cut(rest, "/volumes/")
	return uid, found && volume != "" && !strings.Contains(uid, "/") && (strings.HasPrefix(volume, "kubernetes.io~csi/") || network(m.Type))
}

// global tells a volume's mount for all pods of the node (pkg/volume/csi/csi_attacher.go).
func global(m Mount) bool {
	return strings.Contains(m.Point, "/plugins/kubernetes.io/csi/") && strings.HasSuffix(m.Point, "/globalmount")
}

// volumes lists the devices of pods' volumes.
func volumes(all []Mount, pods map[string]bool) map[string]bool {
	devices := map[string]bool{}
	for _, m := range all {
		if uid, ok := podVolume(m); ok && pods[uid] {
			devices[m.Device] = true
		}
	}
	return devices
}

// held lists the mounts of pods' volumes that are still there: the pods' own, and the global ones that no other pod uses.
func held(all []Mount, pods, devices map[string]bool) (points []string) {
	others := map[string]bool{}
	for _, m := range all {
		if uid, ok := podVolume(m); ok && !pods[uid] {
			others[m.Device] = true
		}
	}
	for _, m := range all {
		uid, ok := podVolume(m)
		if ok && pods[uid] || global(m) && devices[m.Device] && !others[m.Device] {
			points = append(points, m.Point)
		}
	}
	return points
}

// mounted lists what the pods of a step have mounted before they are stopped.
func (e *Engine) mounted(ctx context.Context, i int) (pods, devices map[string]bool) {
	if e.Policy.MountWait <= 0 || e.Mounts == nil {
		return nil, nil
	}
	pods = map[string]bool{}
	e.mu.Lock()
	for _, p := range e.state.Pods {
		if p.Step == i {
			pods[p.UID] = true
		}
	}
	e.mu.Unlock()
	all, err := e.Mounts.Mounts(ctx)
	if err != nil {
		e.edit(func() { e.state.note("mounts are not known: " + err.Error()) })
		return nil, nil
	}
	return pods, volumes(all, pods)
}

// settle waits until the volumes of a step's pods are unmounted, as long as that takes nothing from later steps.
func (e *Engine) settle(ctx context.Context, i int, pods, devices map[string]bool) {
	if len(devices) == 0 || e.state.KeepSandboxes {
		return
	}
	began := time.Now()
	end := began.Add(min(e.Policy.MountWait, e.spare(i, began)))
	var left []string
	for ctx.Err() == nil {
		all, err := e.Mounts.Mounts(ctx)
		if err == nil {
			left = held(all, pods, devices)
		}
		if err == nil && len(left) == 0 || time.Now().After(end) {
			break
		}
		wait(ctx, nil, mountPoll)
	}
	e.persist(ctx, func() {
		s := e.state.Steps[i]
		s.MountsWaited, s.MountsLeft = time.Since(began), left
		if len(left) > 0 {
			e.state.note(fmt.Sprintf("tier %s: passed by %d mounts that are still there after %v: %s",
				s.Name, len(left), s.MountsWaited.Round(time.Millisecond), strings.Join(left, ", ")))
		}
	})
	log.G(ctx).WithField("tier", e.state.Steps[i].Name).WithField("left", len(left)).WithField("took", time.Since(began)).Info("mounts of the tier")
}

// spare is what is left of the deadline when the later steps take all that they may.
func (e *Engine) spare(step int, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	need := map[int]time.Duration{}
	for _, p := range e.state.Pods {
		if p.Step > step {
			need[p.Step] = max(need[p.Step], p.Asked, Floor)
		}
	}
	left := e.state.Deadline.Sub(now) - e.state.reserve()*time.Duration(len(need))
	for _, d := range need {
		left -= d
	}
	return left
}
