// Runs the scenario of scripts/golden: go run ./internal/golden SCENARIO SERVER WRITTEN
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log"
	"os"

	nomemory "github.com/nomemory/nomemory/clients/go"
)

// reached contains the address of the server and the credentials of the callers.
type reached struct {
	Target      string            `json:"target"`
	Authorities string            `json:"authorities"`
	Bearers     map[string]string `json:"bearers"`
}

func main() {
	var scenario struct {
		Steps []step `json:"steps"`
	}
	read(os.Args[1], &scenario)
	var server reached
	read(os.Args[2], &server)
	written := must(os.Create(os.Args[3]))
	lines := json.NewEncoder(written)
	player := play{clients: server.clients(), kept: map[string]any{}}
	for _, step := range scenario.Steps {
		check(lines.Encode(player.outcome(context.Background(), step)))
	}
	check(written.Close())
}

func (r reached) clients() map[string]*nomemory.Client {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(must(os.ReadFile(r.Authorities)))
	made := map[string]*nomemory.Client{}
	for caller, bearer := range r.Bearers {
		tls := nomemory.WithTLS(&tls.Config{RootCAs: trusted})
		made[caller] = must(nomemory.Dial(r.Target, tls, nomemory.WithToken(bearer)))
	}
	return made
}

func read(file string, into any) {
	check(json.Unmarshal(must(os.ReadFile(file)), into))
}

func must[Value any](value Value, err error) Value {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
