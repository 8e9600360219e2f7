package loss

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/node"
)

// Image has the program of the containers.
const Image = "localhost/due:1"

// DueImage is the image to make the node with.
func DueImage() node.Image {
	return node.Image{Name: Image, Programs: map[string]string{"/due": "./test/loss/due"}, Entrypoint: []string{"/due"}}
}

// Workload is a number of containers that run to completion.
type Workload struct {
	node *node.Node
	dir  string // of the file that starts the clock, in the node
	pods []*node.RunningPod
	ends []End
	base time.Time
	span time.Duration
}

// End is how one container should end.
type End struct {
	Pod       *node.RunningPod
	Container string
	Part      float64 // of the span after which it ends
	Code      int32
}

// perPod is how many containers a pod has: they share a shim.
const perPod = 5

// Start runs count containers, each of which will end at a random moment of a span of time with a code that is neither 0
// nor 255. Go starts the clock.
func Start(ctx context.Context, n *node.Node, name string, seed uint64, count int) (*Workload, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &Workload{node: n, dir: "/var/lib/loss/" + name}
	if _, err := n.Exec(ctx, "mkdir", "-p", w.dir); err != nil {
		return nil, err
	}
	for first := 0; first < count; first += perPod {
		pod := node.Pod{Name: fmt.Sprintf("%s-%d", name, first/perPod)}
		var ends []End
		for i := first; i < min(first+perPod, count); i++ {
			e := End{Container: fmt.Sprintf("c%d", i), Part: rng.Float64(), Code: 1 + rng.Int32N(100)}
			ends = append(ends, e)
			pod.Containers = append(pod.Containers, node.Container{
				Name: e.Container, Image: Image, Args: []string{w.dir + "/base", strconv.FormatFloat(e.Part, 'f', -1, 64), strconv.Itoa(int(e.Code))},
				Mounts: []node.Mount{{Host: w.dir, Container: w.dir, ReadOnly: true}},
			})
		}
		p, err := n.StartPod(ctx, pod)
		if err != nil {
			return nil, err
		}
		for _, e := range ends {
			e.Pod = p
			w.ends = append(w.ends, e)
		}
		w.pods = append(w.pods, p)
	}
	return w, nil
}

// lead is the time until the clock starts, in which every container notices that it will.
const lead = 300 * time.Millisecond

// Go starts the clock.
func (w *Workload) Go(span time.Duration) error {
	w.base, w.span = time.Now().Add(lead), span
	return w.node.WriteFile(w.dir+"/base", fmt.Appendf(nil, "%d %d.", w.base.UnixNano(), span), 0o644)
}

// Due counts the containers that are due to end in a window.
func (w *Workload) Due(from, to time.Time) (count int) {
	for _, e := range w.ends {
		if at := w.base.Add(time.Duration(e.Part * float64(w.span))); at.After(from) && at.Before(to) {
			count++
		}
	}
	return count
}

// Lost waits until every container has ended, and lists those that did not end with their code.
func (w *Workload) Lost(ctx context.Context) (lost []string, err error) {
	for _, e := range w.ends {
		s, err := e.Pod.WaitContainer(ctx, e.Container)
		if err != nil {
			return lost, err
		}
		if s.GetExitCode() != e.Code || s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			lost = append(lost, fmt.Sprintf("%s/%s: %d %s, not %d", e.Pod.Pod.Name, e.Container, s.GetExitCode(), s.GetReason(), e.Code))
		}
	}
	return lost, nil
}

// IDs are the CRI ids of the containers.
func (w *Workload) IDs() (ids []string) {
	for _, e := range w.ends {
		ids = append(ids, e.Pod.ID(e.Container))
	}
	return ids
}

// Remove removes the pods.
func (w *Workload) Remove(ctx context.Context) error {
	for _, p := range w.pods {
		if err := p.Stop(ctx); err != nil {
			return err
		}
		if err := p.Remove(ctx); err != nil {
			return err
		}
	}
	return nil
}
