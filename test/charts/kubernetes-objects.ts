/** The kinds of objects that the charts render, as far as suites look into them, and ways to find one. */
import type { V1Container, V1Deployment, V1NetworkPolicy, V1Service } from "@kubernetes/client-node";

export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
}

export interface ConfigMap extends KubernetesObject {
  data: Record<string, string>;
}

interface Kinds {
  Deployment: V1Deployment;
  Service: V1Service;
  NetworkPolicy: V1NetworkPolicy;
  ConfigMap: ConfigMap;
  ServiceAccount: KubernetesObject & { automountServiceAccountToken?: boolean };
}

export function ofKind<Kind extends keyof Kinds>(objects: readonly KubernetesObject[], kind: Kind): Kinds[Kind][] {
  return objects.filter((object) => object.kind === kind) as Kinds[Kind][];
}

/** The one object of a kind that belongs to a service (`it-iterate-<service>`). @throws Error when there is none. */
export function objectOf<Kind extends keyof Kinds>(objects: readonly KubernetesObject[], kind: Kind, service: string): Kinds[Kind] {
  const found = ofKind(objects, kind).find(({ metadata }) => metadata?.name === `it-iterate-${service}`);
  if (found === undefined) throw new Error(`no ${kind} of ${service} is rendered`);
  return found;
}

/** All containers of a Deployment, those that run first included. */
export function containersOf(deployment: V1Deployment): V1Container[] {
  const { initContainers = [], containers } = deployment.spec!.template.spec!;
  return [...initContainers, ...containers];
}

/** Names of the variables a container is started with, those of its ConfigMap included. */
export function variableNames(objects: readonly KubernetesObject[], service: string): string[] {
  const [container] = objectOf(objects, "Deployment", service).spec!.template.spec!.containers;
  return [...Object.keys(objectOf(objects, "ConfigMap", service).data), ...(container!.env ?? []).map(({ name }) => name)].sort();
}
