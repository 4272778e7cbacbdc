// Reads a dashboard with Grafana's own types, strictly: a key that Grafana does not know, a value of another kind and a picture without
// what it needs are errors, each on a line. It prints how many pictures the dashboard has: check DASHBOARD.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// What the dashboard has in rows and beside them.
type panels struct {
	Panels []json.RawMessage `json:"panels"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check DASHBOARD")
		os.Exit(2)
	}
	pictures, err := check(os.Args[1])
	if isError(err) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(pictures)
}

// The types say an empty list where nothing is wrong, and Go takes that for an error.
func isError(err error) bool {
	return err != nil && err.Error() != ""
}

func check(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The types of pictures and of queries.
	plugins.RegisterDefaultPlugins()
	var whole dashboard.Dashboard
	if err := whole.UnmarshalJSONStrict(text); isError(err) {
		return 0, err
	}
	if err := whole.Validate(); isError(err) {
		return 0, err
	}
	return checkPanels(text)
}

// The pictures in a dashboard or in a row, each by itself: within the whole their errors are lost.
func checkPanels(text []byte) (int, error) {
	var within panels
	if err := json.Unmarshal(text, &within); err != nil {
		return 0, err
	}
	pictures := 0
	for at, raw := range within.Panels {
		var kind struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(raw, &kind); err != nil {
			return 0, err
		}
		if kind.Type == "row" {
			inRow, err := checkPanels(raw)
			if isError(err) {
				return 0, err
			}
			pictures += inRow
			continue
		}
		var picture dashboard.Panel
		if err := picture.UnmarshalJSONStrict(raw); isError(err) {
			return 0, fmt.Errorf("panel %d: %w", at, err)
		}
		if err := picture.Validate(); isError(err) {
			return 0, fmt.Errorf("panel %d: %w", at, err)
		}
		pictures++
	}
	return pictures, nil
}
