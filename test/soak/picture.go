package main

import (
	"bytes"
	"fmt"
)

// picture draws the samples: a panel each for memory, file descriptors, threads and goroutines, from zero to the most.
func (o *outcome) picture() []byte {
	const width, height, left = 800, 130, 60
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width+left+20, 4*(height+40))
	end := o.Samples[len(o.Samples)-1].At
	for i, p := range []struct {
		name string
		of   func(sample) float64
	}{
		{"memory, MiB", func(s sample) float64 { return float64(s.RSS) / 1024 }},
		{"file descriptors", func(s sample) float64 { return float64(s.Files) }},
		{"threads", func(s sample) float64 { return float64(s.Threads) }},
		{"goroutines", func(s sample) float64 { return float64(s.Goroutines) }},
	} {
		top, most := 20+i*(height+40), 1.0
		for _, s := range o.Samples {
			most = max(most, p.of(s)*1.2)
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text><text x="5" y="%d">%.0f</text><text x="5" y="%d">0</text>`+"\n", left, top-5, p.name, top+10, most, top+height)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#888"/><polyline fill="none" stroke="#06c" points="`, left, top, width, height)
		for _, s := range o.Samples {
			fmt.Fprintf(&b, "%.1f,%.1f ", left+width*s.At/end, float64(top+height)-height*p.of(s)/most)
		}
		fmt.Fprintf(&b, `"/><text x="%d" y="%d" text-anchor="end">%.0f min</text>`+"\n", left+width, top+height+14, end/60)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
