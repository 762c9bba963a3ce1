/**
 * Whether an object is one that the API server of a current Kubernetes takes: types, required fields and patterns by the published
 * OpenAPI schemas, and unknown fields by the field table of the official client, because the schemas admit those.
 */
import * as client from "@kubernetes/client-node";
import * as apps from "kubernetes-models/apps/v1";
import * as networking from "kubernetes-models/networking.k8s.io/v1";
import * as core from "kubernetes-models/v1";
import type { KubernetesObject } from "./kubernetes-objects.js";

interface Field {
  baseName: string;
  type: string;
}

type ModelConstructor = new (object: KubernetesObject) => { validate(): void };

const schemas: Record<string, object> = { v1: core, "apps/v1": apps, "networking.k8s.io/v1": networking };
const models = client as unknown as Record<string, { attributeTypeMap?: readonly Field[] }>;

/** Everything wrong with an object, each with the path of the field. */
export function problemsOf(object: KubernetesObject): string[] {
  const where = `${object.kind} ${object.metadata.name}`;
  const fields = unknownFields(object, `V1${object.kind}`).map((path) => `${where}: ${path} is no field of ${object.apiVersion}`);
  const Model = (schemas[object.apiVersion] as Record<string, ModelConstructor> | undefined)?.[object.kind];
  if (Model === undefined) return [`${where}: no schema of ${object.apiVersion} is known`];
  try {
    new Model(object).validate();
    return fields;
  } catch (error) {
    return [...fields, `${where}: ${(error as Error).message}`];
  }
}

function unknownFields(value: unknown, type: string, path = ""): string[] {
  const element = /^Array<(.+)>$/.exec(type)?.[1];
  if (element !== undefined) return (value as unknown[]).flatMap((item, at) => unknownFields(item, element, `${path}[${at}]`));
  const fields = models[type]?.attributeTypeMap;
  if (fields === undefined || typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const field = fields.find(({ baseName }) => baseName === name);
    return field === undefined ? [`${path}.${name}`] : unknownFields(inner, field.type, `${path}.${name}`);
  });
}
