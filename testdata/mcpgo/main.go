// Command mcpgo is an MCP client made with mcp-go, for a test. It connects as vLLM semantic
// router does: with an empty initialize.
//
// It is a module of its own, so that programs that use metarouter as a library do not see the
// modules that mcp-go needs.
//
//	mcpgo URL|COMMAND [ARGUMENT…] < CALLS
//
// CALLS are the parameters of calls, one JSON object a line. It prints, one JSON object a line,
// the results of initialize, of the list of tools and of each call.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if len(os.Args) < 2 {
		log.Fatal("usage: mcpgo URL|COMMAND [ARGUMENT…] < CALLS")
	}
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, target string, args []string) (err error) {
	c, err := connect(ctx, target, args)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	out := json.NewEncoder(os.Stdout)
	begun, err := c.Initialize(ctx, mcp.InitializeRequest{})
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	if err := errors.Join(out.Encode(begun), out.Encode(list)); err != nil {
		return err
	}
	for calls := json.NewDecoder(os.Stdin); ; {
		var request mcp.CallToolRequest
		if err := calls.Decode(&request.Params); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read calls: %w", err)
		}
		result, err := c.CallTool(ctx, request)
		if err != nil {
			return fmt.Errorf("call %s: %w", request.Params.Name, err)
		}
		if err := out.Encode(result); err != nil {
			return err
		}
	}
	// vLLM semantic router loads these too, and pings.
	_, resources := c.ListResources(ctx, mcp.ListResourcesRequest{})
	_, prompts := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	return errors.Join(resources, prompts, c.Ping(ctx))
}

func connect(ctx context.Context, target string, args []string) (*client.Client, error) {
	if !strings.HasPrefix(target, "http://") {
		return client.NewStdioMCPClient(target, os.Environ(), args...)
	}
	c, err := client.NewStreamableHttpClient(target)
	if err != nil {
		return nil, err
	}
	return c, c.Start(ctx)
}
