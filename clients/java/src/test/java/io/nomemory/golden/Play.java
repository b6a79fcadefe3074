package io.nomemory.golden;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import io.nomemory.client.NoMemoryClient;
import io.nomemory.client.NoMemoryException;
import java.util.HashMap;
import java.util.Map;

/** Makes the calls of the steps as their callers, and stores values for later steps. It does not check the results. */
final class Play {
  private final Map<String, NoMemoryClient> clients;
  private final Map<String, JsonElement> kept = new HashMap<>();

  Play(Map<String, NoMemoryClient> clients) {
    this.clients = clients;
  }

  /** Run a step and return its responses or its error. */
  JsonObject outcome(JsonObject step) {
    String caller = step.get("as").getAsString();
    String request = filled(step.get("request")).toString();
    JsonObject outcome = new JsonObject();
    try {
      JsonArray replies = new JsonArray();
      new Called(clients.get(caller), step, request).replies().forEach(reply -> replies.add(json(reply)));
      keep(step, replies);
      outcome.add("replies", replies);
    } catch (NoMemoryException refused) {
      outcome.add("refused", refusal(refused));
    }
    return outcome;
  }

  private void keep(JsonObject step, JsonArray replies) {
    if (step.has("keep")) {
      step.getAsJsonObject("keep").asMap()
          .forEach((name, path) -> kept.put(name, at(replies.get(0), path.getAsString())));
    }
  }

  /** Replace each $name with a stored value. */
  private JsonElement filled(JsonElement value) {
    if (value.isJsonObject()) {
      JsonObject full = new JsonObject();
      value.getAsJsonObject().asMap().forEach((key, each) -> full.add(key, filled(each)));
      return full;
    }
    if (value.isJsonArray()) {
      JsonArray full = new JsonArray();
      value.getAsJsonArray().forEach(each -> full.add(filled(each)));
      return full;
    }
    String text = value.getAsString();
    return text.startsWith("$") ? kept.get(text.substring(1)) : value;
  }

  private static JsonElement at(JsonElement value, String path) {
    for (String part : path.split("\\.")) {
      value = value.isJsonArray()
          ? value.getAsJsonArray().get(Integer.parseInt(part))
          : value.getAsJsonObject().get(part);
    }
    return value;
  }

  private static JsonObject refusal(NoMemoryException failed) {
    JsonArray fields = new JsonArray();
    failed.violations().forEach(violation -> fields.add(violation.field()));
    JsonObject refusal = new JsonObject();
    refusal.addProperty("code", failed.code().name());
    refusal.addProperty("reason", failed.reason().name());
    refusal.addProperty("message", failed.description());
    refusal.add("violations", fields);
    return refusal;
  }

  private static JsonElement json(Message reply) {
    try {
      return JsonParser.parseString(JsonFormat.printer().print(reply));
    } catch (InvalidProtocolBufferException impossible) { // only an Any of an unknown type has no JSON
      throw new IllegalStateException(impossible);
    }
  }
}
