// Reads a dashboard as Grafana's own types have it: words that they do not know, and words that they miss, are
// printed, and the exit code is 1.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	var board dashboard.Dashboard
	err = board.UnmarshalJSONStrict(raw)
	if !isFault(err) {
		err = board.Validate()
	}
	if isFault(err) {
		fmt.Println(err)
		os.Exit(1)
	}
}

// An empty list of faults comes as an error, too.
func isFault(err error) bool {
	return err != nil && err.Error() != ""
}
