// Renders a chart as Helm does, from Go's templates and the functions of Sprig, for machines without Helm:
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run render.go CHART_FOLDER RELEASE NAMESPACE [VALUES.yaml...]
//
// Debian has what it needs: golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

func read(path string) object {
	bytes, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	values := object{}
	if err := yaml.Unmarshal(bytes, &values); err != nil {
		log.Fatalf("%s: %v", path, err)
	}
	return values
}

// merge puts the values of `over` into `under`, map by map.
func merge(under, over object) {
	for key, value := range over {
		inner, isMap := value.(object)
		if old, wasMap := under[key].(object); isMap && wasMap {
			merge(old, inner)
		} else {
			under[key] = value
		}
	}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: render.go CHART_FOLDER RELEASE NAMESPACE [VALUES.yaml...]")
	}
	chart := os.Args[1]
	values := read(filepath.Join(chart, "values.yaml"))
	for _, file := range os.Args[4:] {
		merge(values, read(file))
	}
	about := object{}
	for key, value := range read(filepath.Join(chart, "Chart.yaml")) {
		about[strings.ToUpper(key[:1])+key[1:]] = value
	}
	top := object{
		"Values":  values,
		"Chart":   about,
		"Release": object{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm"},
	}

	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	all.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			_, err = all.New(filepath.Base(file)).Parse(string(text))
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, file := range files {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, filepath.Base(file), top); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("---\n%s", out.String())
	}
}
