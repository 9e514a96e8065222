import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Reader;
import java.io.Writer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import javax.net.SocketFactory;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * One click through Java's TLS: the default socket factory with the default trust store, a socket that is connected
 * after it was made, no check of the host's name. Reads until the desktop's first `sync`, then prints what TLS it was.
 *
 * Arguments: host, port, user, password. Run by java itself, without being compiled first.
 */
public final class GuacamoleTls {

    private static Reader in;
    private static Writer out;

    public static void main(String[] arguments) throws IOException {
        SocketFactory factory = SSLSocketFactory.getDefault();
        try (SSLSocket socket = (SSLSocket) factory.createSocket()) {
            socket.connect(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])), 15_000);
            socket.setSoTimeout(15_000);
            socket.setTcpNoDelay(true);
            in = new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8);
            out = new OutputStreamWriter(socket.getOutputStream(), StandardCharsets.UTF_8);
            click(arguments[2], arguments[3]);
            System.out.println(socket.getSession().getProtocol() + " " + socket.getSession().getCipherSuite());
        }
    }

    private static void click(String user, String password) throws IOException {
        say("select", "rdp");
        List<String> names = hear("args");
        say("size", "1024", "768", "96");
        say("audio");
        say("video");
        say("image", "image/png", "image/jpeg");
        List<String> connect = new ArrayList<>(List.of("connect"));
        for (String name : names.subList(1, names.size())) {
            connect.add(answer(name, user, password));
        }
        say(connect.toArray(String[]::new));
        hear("ready");
        List<String> seen;
        int syncs = 0;
        do {
            seen = read();
            if (seen.get(0).equals("error")) {
                throw new IOException("refused: " + seen);
            }
            if (seen.get(0).equals("sync")) {
                say("sync", seen.get(1));
                syncs++;
            }
        } while (syncs < 5);
        say("disconnect");
        // Read on to the end, which TLS announces: a cut would be an exception here.
        while (in.read() >= 0) {
        }
    }

    private static String answer(String name, String user, String password) {
        if (name.startsWith("VERSION_")) {
            return "VERSION_1_3_0";
        }
        return switch (name) {
            case "hostname" -> "sessionguard:resource=office-desktop";
            case "username" -> user;
            case "password" -> password;
            case "security" -> "any";
            case "ignore-cert" -> "true";
            default -> "";
        };
    }

    private static List<String> hear(String opcode) throws IOException {
        List<String> heard = read();
        if (!heard.get(0).equals(opcode)) {
            throw new IOException(heard + " in place of " + opcode);
        }
        return heard;
    }

    private static void say(String... elements) throws IOException {
        StringBuilder text = new StringBuilder();
        for (String element : elements) {
            text.append(text.length() == 0 ? "" : ",");
            text.append(element.codePointCount(0, element.length())).append('.').append(element);
        }
        out.write(text.append(';').toString());
        out.flush();
    }

    private static List<String> read() throws IOException {
        List<String> elements = new ArrayList<>();
        while (true) {
            int length = 0;
            for (int c = next(); c != '.'; c = next()) {
                length = length * 10 + Character.digit(c, 10);
            }
            StringBuilder element = new StringBuilder();
            for (int n = 0; n < length; n++) {
                element.append((char) next());
            }
            elements.add(element.toString());
            if (next() == ';') {
                return elements;
            }
        }
    }

    private static int next() throws IOException {
        int c = in.read();
        if (c < 0) {
            throw new IOException("the end in the middle of a tunnel");
        }
        return c;
    }
}
