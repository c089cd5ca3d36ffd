package builtin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"

	"github.com/axebus/axe/internal/text"
)

const (
	// maxFetched bounds the text that url_fetch returns, in bytes.
	maxFetched = 10_000
	// maxConverted bounds the part of an HTML page that is converted: the
	// bytes of its text, and nodeCost for each node. The time to convert a
	// hostile page grows with the square of it.
	maxConverted, nodeCost = 32 << 10, 16
	// maxAttribute bounds an attribute, in bytes. A longer one is an image
	// in the page, or a script.
	maxAttribute = 1000
)

// pageText returns the text of an answer for a model.
func pageText(resp *http.Response, body []byte) (string, error) {
	kind := cmp.Or(resp.Header.Get("Content-Type"), http.DetectContentType(body))
	if media, _, err := mime.ParseMediaType(kind); err == nil {
		kind = media
	}
	switch {
	case bytes.IndexByte(body[:min(len(body), 512)], 0) >= 0:
		return "", fmt.Errorf("binary content (%s)", kind)
	case kind == "text/html", kind == "application/xhtml+xml":
		page, whole, err := markdown(body, resp.Request.URL.String())
		return shortened(page, whole), err
	}
	return shortened(string(body), true), nil
}

// shortened bounds the text of a page. Whole says that nothing was left out of
// it before.
func shortened(page string, whole bool) string {
	page = strings.ToValidUTF8(page, "\uFFFD")
	if whole && len(page) <= maxFetched {
		return page
	}
	return text.Head(page, maxFetched) + "\n... [response truncated, exceeded 10000 characters]"
}

// markdown returns a page of HTML as Markdown. Its links are absolute. A page
// that the libraries cannot deal with is an error, and never ends the worker.
func markdown(body []byte, url string) (page string, whole bool, err error) {
	defer func() {
		if recover() != nil {
			page, err = "", errors.New("the HTML cannot be converted")
		}
	}()
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return "", true, err
	}
	whole = prune(doc)
	c := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin(),
	))
	b, err := c.ConvertNode(doc, converter.WithDomain(url))
	return string(b), whole, err
}

// prune removes the parts of a page that are of no use for a model or costly to
// convert. It returns false if it has cut off the end of the page.
func prune(doc *html.Node) (whole bool) {
	var removed []*html.Node
	room := maxConverted
	for n := range doc.Descendants() {
		switch {
		case isCode(n.Parent):
			continue // it goes with its parent
		case isCode(n), room <= 0:
			removed = append(removed, n)
			continue
		case n.Type == html.TextNode:
			n.Data = text.Head(n.Data, room)
		}
		room -= len(n.Data) + nodeCost
		n.Attr = slices.DeleteFunc(n.Attr, isCostly)
	}
	for _, n := range removed {
		n.Parent.RemoveChild(n)
	}
	return room > 0
}

// isCode reports whether a node has text that is not for people.
func isCode(n *html.Node) bool {
	return n.Type == html.CommentNode ||
		n.Type == html.ElementNode && slices.Contains([]string{"script", "style", "noscript", "template"}, n.Data)
}

// isCostly reports whether an attribute makes much of little: a cell may claim
// to be as large as a thousand cells.
func isCostly(a html.Attribute) bool {
	return a.Key == "colspan" || a.Key == "rowspan" || len(a.Val) > maxAttribute
}
