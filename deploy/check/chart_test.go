package check_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const chartDir = "../helm/axe"

// scaledObject has the fields of keda.sh/v1alpha1 that the chart uses, as its
// custom resource definition has them.
type scaledObject struct {
	metav1.TypeMeta
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		PollingInterval int32 `json:"pollingInterval"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		Fallback        struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"`
		} `json:"fallback"`
		Advanced struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type       string            `json:"type"`
			MetricType string            `json:"metricType"`
			Metadata   map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// podMonitor has the fields of monitoring.coreos.com/v1 that the chart uses.
type podMonitor struct {
	metav1.TypeMeta
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Interval      string `json:"interval"`
			Authorization struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// kinds makes an empty object of each kind that the chart may have.
var kinds = map[string]func() any{
	"v1 ConfigMap":                        func() any { return &corev1.ConfigMap{} },
	"v1 Service":                          func() any { return &corev1.Service{} },
	"v1 ServiceAccount":                   func() any { return &corev1.ServiceAccount{} },
	"apps/v1 Deployment":                  func() any { return &appsv1.Deployment{} },
	"batch/v1 Job":                        func() any { return &batchv1.Job{} },
	"policy/v1 PodDisruptionBudget":       func() any { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1 NetworkPolicy":  func() any { return &networkingv1.NetworkPolicy{} },
	"keda.sh/v1alpha1 ScaledObject":       func() any { return &scaledObject{} },
	"monitoring.coreos.com/v1 PodMonitor": func() any { return &podMonitor{} },
}

// manifests are the objects of a rendered chart, by kind and name.
type manifests map[string]any

// all returns the objects of a type.
func all[T any](m manifests) (found []T) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if o, ok := m[name].(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// values reads ci/values.yaml, and puts changes over it.
func values(t *testing.T, changes string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "ci/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := chartutil.ReadValues(text)
	if err != nil {
		t.Fatal(err)
	}
	over, err := chartutil.ReadValues([]byte(changes))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(v, over)
	return v
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// renderChart renders the chart as helm template does. Each manifest has only
// fields that its kind has, each of the right type and once.
func renderChart(t *testing.T, v map[string]any) (manifests, error) {
	t.Helper()
	c := loadChart(t)
	release := chartutil.ReleaseOptions{Name: "axe", Namespace: "agents", IsInstall: true, Revision: 1}
	render, err := chartutil.ToRenderValues(c, v, release, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, render)
	if err != nil {
		return nil, err
	}
	m := manifests{}
	for file, text := range files {
		if strings.HasSuffix(file, ".txt") {
			continue
		}
		for document := range strings.SplitSeq("\n"+text, "\n---") {
			var head struct {
				metav1.TypeMeta
				Metadata metav1.ObjectMeta `json:"metadata"`
			}
			if err := yaml.Unmarshal([]byte(document), &head); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", file, err, document)
			}
			if head.Kind == "" {
				continue
			}
			kind := head.APIVersion + " " + head.Kind
			newOf, ok := kinds[kind]
			if !ok {
				return nil, fmt.Errorf("%s: unknown kind %s", file, kind)
			}
			o := newOf()
			if err := yaml.UnmarshalStrict([]byte(document), o); err != nil {
				return nil, fmt.Errorf("%s: %s: %w\n%s", file, kind, err, document)
			}
			name := head.Kind + " " + head.Metadata.Name
			if m[name] != nil {
				return nil, fmt.Errorf("%s: %s is there twice", file, name)
			}
			m[name] = o
		}
	}
	return m, nil
}

// mustRender renders the chart with the values of ci/values.yaml and changes.
func mustRender(t *testing.T, changes string) manifests {
	t.Helper()
	m, err := renderChart(t, values(t, changes))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestChartLint: helm lint has nothing to say.
func TestChartLint(t *testing.T) {
	linter := lint.AllWithKubeVersion(chartDir, values(t, ""), "agents", nil)
	for _, m := range linter.Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("%s", m)
		}
	}
}

// TestChartKinds: the chart has these objects, and those that are off are left
// out.
func TestChartKinds(t *testing.T) {
	want := []string{
		"ConfigMap axe-agents-reviews", "ConfigMap axe-config", "Deployment axe-ui", "Deployment axe-worker-long",
		"Deployment axe-worker-reviews", "Job axe-provision", "NetworkPolicy axe", "NetworkPolicy axe-metrics",
		"NetworkPolicy axe-ui", "PodDisruptionBudget axe-worker-long", "PodDisruptionBudget axe-worker-reviews",
		"PodMonitor axe", "ScaledObject axe-worker-reviews", "Service axe-ui", "ServiceAccount axe",
	}
	if got := slices.Sorted(maps.Keys(mustRender(t, ""))); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	off := mustRender(t, `
ui: {enabled: false}
provision: {enabled: false}
networkPolicy: {enabled: false}
podMonitor: {enabled: false}
keys: {secret: ""}
pools: [{name: long, agentsConfigMap: a}]
`)
	want = []string{
		"ConfigMap axe-config", "Deployment axe-worker-long", "PodDisruptionBudget axe-worker-long", "ServiceAccount axe",
	}
	if got := slices.Sorted(maps.Keys(off)); !slices.Equal(got, want) {
		t.Errorf("with all of it off: got %q\nwant %q", got, want)
	}
}

// TestChartPods: each pod is restricted, has no token of Kubernetes, has the
// creds of its role and no others, and its command has flags that its program
// knows. A worker is killed after its drain.
func TestChartPods(t *testing.T) {
	m := mustRender(t, "")
	pods := map[string]corev1.PodTemplateSpec{}
	for _, d := range all[*appsv1.Deployment](m) {
		pods[d.Name] = d.Spec.Template
		if !selects(t, d.Spec.Selector, d.Spec.Template.Labels) {
			t.Errorf("%s does not select its own pods", d.Name)
		}
	}
	for _, j := range all[*batchv1.Job](m) {
		pods[j.Name] = j.Spec.Template
	}
	if len(pods) != 4 {
		t.Fatalf("got the pods of %q, want four", slices.Sorted(maps.Keys(pods)))
	}
	for name, pod := range pods {
		checkPod(t, name, pod.Spec)
		c := pod.Spec.Containers[0]
		if c.Args[0] == "agentd" {
			seconds := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
			if least := grace(t, c.Args) + afterGrace; seconds < least {
				t.Errorf("%s is killed after %s, want %s at least", name, seconds, least)
			}
		}
		if probed := c.ReadinessProbe != nil && c.LivenessProbe != nil; probed != (pod.Spec.RestartPolicy == "") {
			t.Errorf("%s has probes: %v", name, probed)
		}
	}
	// Any of the other values of agentd may be a string with spaces.
	long := pods["axe-worker-long"].Spec
	if !slices.Contains(long.Containers[0].Args, "--grace=600s") || *long.TerminationGracePeriodSeconds != 630 ||
		long.NodeSelector["disk"] != "ssd" || len(long.Tolerations) != 1 {
		t.Errorf("axe-worker-long does not have the values of its pool: %+v", long)
	}
}

// checkPod checks a pod with one container.
func checkPod(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || *s.FSGroup == 0 ||
		s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: the pod is not restricted: %+v", name, s)
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
		t.Errorf("%s: the container is not restricted: %+v", name, s)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s has a token of Kubernetes", name)
	}
	if len(c.Resources.Requests) == 0 {
		t.Errorf("%s requests nothing", name)
	}
	checkCommand(t, name, c.Args)

	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	creds := credsOf(c.Args)
	for _, mount := range c.VolumeMounts {
		v, ok := volumes[mount.Name]
		if !ok {
			t.Errorf("%s mounts %s, which is no volume", name, mount.Name)
		}
		delete(volumes, mount.Name)
		if v.EmptyDir == nil && !mount.ReadOnly {
			t.Errorf("%s may write to %s", name, mount.MountPath)
		}
		if v.Secret == nil {
			continue
		}
		if *v.Secret.DefaultMode != 0o440 {
			t.Errorf("%s: the files of the secret %s have the mode %o", name, v.Secret.SecretName, *v.Secret.DefaultMode)
		}
		for _, item := range v.Secret.Items {
			if strings.HasSuffix(item.Key, ".creds") && item.Key != creds {
				t.Errorf("%s has %s, want %s alone", name, item.Key, creds)
			}
		}
	}
	if len(volumes) > 0 {
		t.Errorf("%s does not mount %q", name, slices.Sorted(maps.Keys(volumes)))
	}
	for _, arg := range c.Args {
		if _, path, ok := strings.Cut(arg, "=/"); ok && !mounted(c, "/"+path) {
			t.Errorf("%s: %s is not mounted", name, arg)
		}
	}
	for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		if !slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool {
			return port.Name == p.HTTPGet.Port.String() &&
				slices.ContainsFunc(c.Args, func(arg string) bool {
					return strings.HasSuffix(arg, "=:"+strconv.Itoa(int(port.ContainerPort)))
				})
		}) {
			t.Errorf("%s: the port of the probe %s is none that the program listens at", name, p.HTTPGet.Path)
		}
	}
}

// mounted reports whether a path is in a volume of a container.
func mounted(c corev1.Container, path string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/")
	})
}

// selects reports whether a selector matches the labels of pods.
func selects(t *testing.T, s *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(of))
}

// TestChartSelectors: a budget, a policy, a service and a monitor match the pods
// that they are for, and no others.
func TestChartSelectors(t *testing.T) {
	m := mustRender(t, "")
	pods := map[string]map[string]string{}
	for _, d := range all[*appsv1.Deployment](m) {
		pods[d.Name] = d.Spec.Template.Labels
	}
	for _, j := range all[*batchv1.Job](m) {
		pods[j.Name] = j.Spec.Template.Labels
	}
	workers := []string{"axe-worker-long", "axe-worker-reviews"}
	check := func(of string, s *metav1.LabelSelector, want ...string) {
		t.Helper()
		var got []string
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			if selects(t, s, pods[name]) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s matches %q, want %q", of, got, want)
		}
	}
	for _, d := range all[*appsv1.Deployment](m) {
		check(d.Name, d.Spec.Selector, d.Name)
	}
	for _, b := range all[*policyv1.PodDisruptionBudget](m) {
		check("budget "+b.Name, b.Spec.Selector, b.Name)
	}
	for _, p := range all[*networkingv1.NetworkPolicy](m) {
		want := map[string][]string{
			"axe": {"axe-provision", "axe-ui", "axe-worker-long", "axe-worker-reviews"}, "axe-metrics": workers,
			"axe-ui": {"axe-ui"},
		}
		check("policy "+p.Name, &p.Spec.PodSelector, want[p.Name]...)
		if p.Name == "axe" && (len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) > 0) {
			t.Errorf("the pods may be reached: %+v", p.Spec)
		}
	}
	for _, s := range all[*corev1.Service](m) {
		check("service "+s.Name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, "axe-ui")
	}
	for _, p := range all[*podMonitor](m) {
		check("monitor "+p.Metadata.Name, &p.Spec.Selector, workers...)
	}
}

// TestChartScaling: the autoscaler owns the replicas of a pool. Its query counts
// the runs at work and those that wait, and is empty without a worker, so that
// the pool keeps its size.
func TestChartScaling(t *testing.T) {
	m := mustRender(t, "")
	so := all[*scaledObject](m)[0]
	d, ok := m["Deployment "+so.Spec.ScaleTargetRef.Name].(*appsv1.Deployment)
	if !ok || d.Spec.Replicas != nil {
		t.Errorf("the target %s is no deployment without replicas", so.Spec.ScaleTargetRef.Name)
	}
	if so.Spec.MinReplicaCount != 2 || so.Spec.MaxReplicaCount != 12 || so.Spec.Triggers[0].Metadata["threshold"] != "48" {
		t.Errorf("the scale does not have the values of its pool: %+v", so.Spec)
	}
	for grace, want := range map[int]int32{1: 60, 600: 600, 7200: 1800} {
		pool := fmt.Sprintf("pools: [{name: a, agentsConfigMap: x, graceSeconds: %d, scaling: {enabled: true}}]", grace)
		behavior := all[*scaledObject](mustRender(t, pool))[0].Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior
		if got := behavior.ScaleDown.Policies[0].PeriodSeconds; got != want {
			t.Errorf("with a grace of %ds a pool loses a pod every %ds, want %ds", grace, got, want)
		}
	}
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("there is no promtool: Debian has it in the package prometheus")
	}
	query := so.Spec.Triggers[0].Metadata["query"]
	series := func(name, pod, labels, value string) string {
		return fmt.Sprintf("      - series: '%s{namespace=\"agents\",pod=\"%s\"%s}'\n        values: '%s'\n",
			name, pod, labels, value)
	}
	one, two := "axe-worker-reviews-7c9f-abcde", "axe-worker-reviews-7c9f-fghij"
	test := "rule_files: []\ntests:\n  - interval: 1m\n    input_series:\n" +
		// Both workers see the same queues. Another pool has its own.
		series("axe_runs_in_hand", one, "", "3") + series("axe_runs_in_hand", two, "", "4") +
		series("axe_queue_calls", one, `,agent="lead"`, "5") + series("axe_queue_calls", two, `,agent="lead"`, "5") +
		series("axe_queue_calls", two, `,agent="reader"`, "20") +
		series("axe_runs_in_hand", "axe-worker-long-7c9f-abcde", "", "100") +
		"    promql_expr_test:\n      - expr: >-\n          " + query +
		"\n        eval_time: 0m\n        exp_samples: [{labels: '{}', value: 32}]\n" +
		// No worker: no sample.
		"  - interval: 1m\n    input_series:\n" + series("axe_queue_calls", one, `,agent="lead"`, "5") +
		"    promql_expr_test:\n      - expr: >-\n          " + query + "\n        eval_time: 0m\n        exp_samples: []\n"
	file := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(file, []byte(test), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v: %s\n%s", err, out, test)
	}
}

// TestChartRefuses: values that would make a fleet that does not work, or one
// that shows a key, are refused.
func TestChartRefuses(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"no address":     {`nats: {url: "", secret: axe-bus}`, "url"},
		"no TLS":         {`nats: {url: "nats://nats:4222", secret: axe-bus}`, "url"},
		"no pool":        {`pools: []`, "pools"},
		"no agents":      {`pools: [{name: a}]`, "pools"},
		"two sources":    {`pools: [{name: a, agentsConfigMap: x, agents: {a.toml: ""}}]`, "pools"},
		"a bad file":     {`pools: [{name: a, agents: {../a.toml: ""}}]`, "../a.toml"},
		"a bad name":     {`pools: [{name: A_b, agentsConfigMap: x}]`, "pools"},
		"a second grace": {`pools: [{name: a, agentsConfigMap: x, args: [--grace=1h]}]`, "pools"},
		"scale to zero":  {`pools: [{name: a, agentsConfigMap: x, scaling: {enabled: true, min: 0}}]`, "min"},
		"a key":          {"config: |\n  [providers.openai]\n  api_key = \"sk-x\"\n", "config"},
		"a slip":         {`network_policy: {}`, "network_policy"},
	} {
		_, err := renderChart(t, values(t, test.values))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one that names %s", name, err, test.want)
		}
	}
}
