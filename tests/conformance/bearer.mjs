// The suite knows no tokens: every request it makes gets ours on its way out.
import { channel } from "node:diagnostics_channel";

channel("undici:request:create").subscribe(({ request }) => {
  request.addHeader("authorization", `Bearer ${process.env.ZOEA_TOKEN}`);
});
