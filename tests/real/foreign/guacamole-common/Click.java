import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

import org.apache.guacamole.GuacamoleException;
import org.apache.guacamole.io.GuacamoleReader;
import org.apache.guacamole.net.GuacamoleSocket;
import org.apache.guacamole.net.InetGuacamoleSocket;
import org.apache.guacamole.protocol.ConfiguredGuacamoleSocket;
import org.apache.guacamole.protocol.FailoverGuacamoleSocket;
import org.apache.guacamole.protocol.GuacamoleClientInformation;
import org.apache.guacamole.protocol.GuacamoleConfiguration;
import org.apache.guacamole.protocol.GuacamoleInstruction;
import org.apache.guacamole.protocol.GuacamoleStatus;

/**
 * One click through guacamole-common, the library that Guacamole itself speaks to guacd with, by the
 * sockets that Guacamole puts together for a connection. Started by support/foreign.py.
 *
 * Arguments: host, port, protocol. Lines of stdin up to an empty one: parameters as NAME=VALUE. Each
 * instruction goes to stdout, one a line; before them "# ready ID VERSION", at the end
 * "# failed STATUS" for what Guacamole would have thrown. The end of stdin is the page's.
 */
public class Click {

    public static void main(String[] arguments) throws IOException {
        GuacamoleConfiguration connection = new GuacamoleConfiguration();
        connection.setProtocol(arguments[2]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
            int at = line.indexOf('=');
            connection.setParameter(line.substring(0, at), line.substring(at + 1));
        }
        GuacamoleClientInformation page = new GuacamoleClientInformation();
        page.setOptimalScreenWidth(1024);
        page.setOptimalScreenHeight(768);
        page.getImageMimetypes().add("image/png");
        page.setTimezone("Etc/UTC");
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        try {
            click(arguments[0], Integer.parseInt(arguments[1]), connection, page, in, out);
        }
        catch (GuacamoleException failed) {
            out.println("# failed " + failed.getStatus());
        }
        System.exit(0);
    }

    private static void click(String host, int port, GuacamoleConfiguration connection,
            GuacamoleClientInformation page, BufferedReader in, PrintStream out)
            throws GuacamoleException, IOException {
        ConfiguredGuacamoleSocket configured =
                new ConfiguredGuacamoleSocket(new InetGuacamoleSocket(host, port), connection, page);
        out.println("# ready " + configured.getConnectionID() + " " + configured.getProtocolVersion());
        // As Guacamole does where it has other guacds to try: it throws what a page would retry on.
        GuacamoleSocket socket = new FailoverGuacamoleSocket(configured);
        closeAtEnd(in, socket);
        GuacamoleReader reader = socket.getReader();
        GuacamoleInstruction read;
        while ((read = reader.readInstruction()) != null) {
            out.println(read);
            if (read.getOpcode().equals("sync"))
                socket.getWriter().writeInstruction(new GuacamoleInstruction("sync", read.getArgs().get(0)));
            if (read.getOpcode().equals("error")) {
                int code = Integer.parseInt(read.getArgs().get(1));
                out.println("# failed " + GuacamoleStatus.fromGuacamoleStatusCode(code));
            }
        }
        socket.close();
    }

    /** Says goodbye once the page is gone. */
    private static void closeAtEnd(BufferedReader in, GuacamoleSocket socket) {
        Thread thread = new Thread(() -> {
            try {
                while (in.readLine() != null);
                socket.getWriter().writeInstruction(new GuacamoleInstruction("disconnect"));
                socket.close();
            }
            catch (IOException | GuacamoleException gone) {
                // The other side was quicker.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
