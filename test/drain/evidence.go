package drain

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"quiesce/test/lab"
)

// Event is a line that a victim wrote.
type Event struct {
	At   time.Time
	What string
	Err  string
}

// Events reads what a victim wrote.
func Events(l *lab.Lab, log string) ([]Event, error) {
	b, err := l.ReadFile(path.Join(Evidence, log))
	if err != nil {
		return nil, err
	}
	var out []Event
	for line := range strings.Lines(string(b)) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("read evidence of %s: %w", log, err)
		}
		out = append(out, e)
	}
	return out, nil
}
