/** Says what it was given; then fails, or serves for as long as it is let. */
const names = Object.keys(process.env).sort().join();
process.stdout.write(`${process.env["GREETING"]} ${process.argv.slice(2).join(" ")} ${names}\n`);
if (process.env["FAIL"] !== undefined) process.exit(3);
process.stderr.write(`${JSON.stringify({ message: "serving", ports: { grpc: 1 } })}\n`);
setInterval(() => undefined, 1_000);
