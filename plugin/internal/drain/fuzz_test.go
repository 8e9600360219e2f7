package drain

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"quiesce/plugin/internal/node"
)

// FuzzAnnotations lets pods say anything of themselves. Each of them is in the plan once, with a grace, and what is printed of
// it moves no cursor.
func FuzzAnnotations(f *testing.F) {
	f.Add("30", "90", "app=b", "kube-system/*", "10", `{"exec":{"command":["true"]}}`, `[{"name":"web","containerPort":80}]`, "api")
	f.Add("storage", "1m30s", "a=b; c", "!x", "-1", `{"httpGet":{"port":"web","path":"x"}}`, "[]", "file")
	f.Add("network", "0", "", "", "9223372036854775807", `{"sleep":{"seconds":9223372036854775807}}`, "", "")
	f.Add("1000", "x", "/", "\x1b[2J/=", "", `{"tcpSocket":{"port":1}}`, "{", "api")
	f.Fuzz(func(t *testing.T, tier, grace, before, after, kubelet, hook, ports, from string) {
		var pods []*node.Pod
		for _, name := range []string{"a", "b", "c"} {
			p := tp("x", name, asks(kubelet), annotate(source, from), annotate(annTier, tier), annotate(annGrace, grace), label(tier, before))
			p.Containers[0].Annotations[lifecycle] = hook
			p.Containers[0].Annotations[declaredPort] = ports
			pods = append(pods, p)
		}
		annotate(annBefore, before)(pods[0])
		annotate(annAfter, after)(pods[1])
		annotate(annSidecars, grace+",main")(pods[2])
		plan, err := New(node.Snapshot{Pods: pods}, DefaultPolicy(), Selection{All: true})
		if err != nil && len(err.Error()) > 3*(len(tier)+len(grace)+len(before)+len(after)+len(hook)+len(ports))*8+8000 {
			t.Errorf("problems of %d bytes", len(err.Error()))
		}
		seen := map[string]int{}
		for _, s := range plan.Steps {
			for _, pl := range s.Pods {
				seen[pl.Pod.Name]++
				if pl.Grace <= 0 || len(pl.Targets) != 1 {
					t.Errorf("%s: grace %v, %d targets", pl.Pod, pl.Grace, len(pl.Targets))
				}
				if h := pl.Targets[0].PreStop; h != nil && h.Sleep < 0 {
					t.Errorf("%s: a hook sleeps %v", pl.Pod, h.Sleep)
				}
			}
		}
		if plan.Pods() != 3 || len(seen) != 3 {
			t.Errorf("the plan has %v", seen)
		}
		var out bytes.Buffer
		if err := plan.Print(&out); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
			t.Errorf("it prints %q", out.String()[i:])
		}
	})
}
