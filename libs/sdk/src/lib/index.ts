/** Small things that project code, clients and the platform share: errors and context paths. */
export { CodedError, codedError, errorCode, errorCodes, isCodedError, isErrorCode, toCodedError } from "./coded-error.js";
export type { CodedErrorOptions, ErrorCode, ErrorCodeInfo, ErrorKind } from "./coded-error.js";
export { assertContextPath, maxContextPathBytes, resolveContextPath } from "./context-path.js";
export { exceedsUtf8, utf8Length } from "./utf8.js";
