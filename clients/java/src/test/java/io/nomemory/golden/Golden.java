package io.nomemory.golden;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nomemory.client.NoMemoryClient;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** Runs the scenario of scripts/golden. The arguments are the files SCENARIO, SERVER and WRITTEN. */
public final class Golden {
  private Golden() {}

  public static void main(String[] args) throws IOException {
    JsonObject scenario = read(args[0]);
    Map<String, NoMemoryClient> clients = clients(read(args[1]));
    Play play = new Play(clients);
    try (PrintStream written = new PrintStream(args[2], StandardCharsets.UTF_8)) {
      for (JsonElement step : scenario.getAsJsonArray("steps")) {
        written.println(play.outcome(step.getAsJsonObject()));
      }
    }
    clients.values().forEach(NoMemoryClient::close);
  }

  private static JsonObject read(String file) throws IOException {
    return JsonParser.parseString(Files.readString(Path.of(file))).getAsJsonObject();
  }

  /** Create a client for each caller. */
  private static Map<String, NoMemoryClient> clients(JsonObject reached) {
    Path authorities = Path.of(reached.get("authorities").getAsString());
    Map<String, NoMemoryClient> made = new LinkedHashMap<>();
    reached.getAsJsonObject("bearers").asMap().forEach((caller, bearer) ->
        made.put(caller, NoMemoryClient.builder(reached.get("target").getAsString()).tlsAuthorities(authorities)
            .token(bearer.getAsString()).build()));
    return made;
  }
}
