// A micro service of the library nats.js. It answers get with the order and the
// key of the call, and refuses each refund.
const { connect } = require("nats");

const schema = JSON.stringify({
  type: "object",
  required: ["order"],
  properties: { order: { type: "string" } },
});

async function main() {
  const nc = await connect({ servers: process.env.NATS_URL });
  const service = await nc.services.add({ name: "orders", version: "1.0.0" });
  service.addEndpoint("get", {
    subject: "orders.get",
    metadata: { description: "Returns an order", schema, effect: "read" },
    handler: (_, m) => {
      m.respond(`order ${m.json().order} for ${m.headers.get("Axe-Key")}`);
    },
  });
  service.addEndpoint("refund", {
    subject: "orders.refund",
    metadata: { description: "Refunds an order", schema, effect: "idempotent" },
    handler: (_, m) => {
      m.respondError(409, "it was refunded", "yesterday");
    },
  });
  await nc.flush();
  console.log("ready");
}

main();
